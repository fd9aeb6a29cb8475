// SPDX-License-Identifier: Apache-2.0
//
// model.hpp - what the models of protocols share.
//
// A model is a class template by the fault that is planted in it; 0 is the protocol as
// the runtime has it. Relacy runs it under the memory model of C++11, by schedules at
// random: loads may find any store that is not ruled out, so that unlike in ../../sim a
// missing acquire is found, too. What it checks is the protocol, not the runtime's
// source: who changes one changes the other.
//
// membarrier(2) makes all running threads execute a full fence, so that a compiler
// barrier on one side and it on the other order as two full fences do. As such both
// are written here: light() and heavy().
#ifndef RELACY_MODEL_HPP
#define RELACY_MODEL_HPP

#include <cstdio>
#include <ostream>

#include <relacy/relacy.hpp>

#define relaxed rl::mo_relaxed, $
#define acquire rl::mo_acquire, $
#define release rl::mo_release, $
#define acq_rel rl::mo_acq_rel, $
#define seq_cst rl::mo_seq_cst, $

static inline void fence()
{
	rl::atomic_thread_fence(seq_cst);
}

// True: so many schedules, and nothing found.
template <typename model> bool holds(unsigned schedules)
{
	std::ostream nowhere(
		nullptr); // a stream that allocates is freed by Relacy
	rl::test_params params;

	params.iteration_count = schedules;
	params.execution_depth_limit = 3000;
	params.output_stream = &nowhere;
	params.progress_stream = &nowhere;
	params.progress_output_period = ~0u;
	if (rl::simulate<model>(params))
		return true;
	std::printf("    %s\n", rl::test_result_str(params.test_result));
	return false;
}

#define SCHEDULES 500000

// The protocol holds, and each fault is found.
template <template <int> class model, int faults> struct check {
	static bool with(const char *const *names)
	{
		const bool right = check<model, faults - 1>::with(names);

		std::printf("%s: is to be found\n", names[faults]);
		std::fflush(stdout);
		if (!holds<model<faults>>(SCHEDULES))
			return right;
		std::printf("    was not\n");
		return false;
	}
};

template <template <int> class model> struct check<model, 0> {
	static bool with(const char *const *names)
	{
		std::printf("%s: is to hold\n", names[0]);
		std::fflush(stdout);
		return holds<model<0>>(SCHEDULES);
	}
};

#endif
