// SPDX-License-Identifier: Apache-2.0
//
// idle.cc - going to sleep against adding work (src/sched/idle.c, loop.c, runq.h): one
// that adds work and goes on, one that goes to sleep, and one that was looking for work
// and has found other.
#include "model.hpp"

template <int fault> struct idle_model : rl::test_suite<idle_model<fault>, 3> {
	rl::atomic<int> count, nidle, nspinning, wake;
	rl::var<int> sleeps;

	void before()
	{
		count($) = 0;
		nidle($) = 0;
		nspinning($) = 1; // the third
		wake($) = 0;
		sleeps($) = 0;
	}

	void wake_some()
	{
		wake.store(1, release);
	}

	// ready_from(): local_push(), poke()
	void adds()
	{
		count.store(1, relaxed);
		if (fault != 1)
			fence(); // light
		if (nidle.load(relaxed) && !nspinning.load(relaxed))
			wake_some();
	}

	// go_idle()
	void goes_to_sleep()
	{
		if (fault == 3 && count.load(relaxed))
			return;
		nidle.store(1, relaxed);
		if (fault != 2)
			fence(); // heavy
		if (fault != 3 && count.load(relaxed))
			return; // not yet
		sleeps($) = 1;
	}

	// look(): it has found something else, and will compute
	void stops_looking()
	{
		if (fault == 6 && count.load(relaxed))
			wake_some();
		if (nspinning.fetch_sub(1, seq_cst) != 1 || fault == 6)
			return;
		if (fault != 5)
			fence();
		if (fault != 4 && nidle.load(relaxed)) {
			fence(); // heavy
			if (count.load(relaxed))
				wake_some();
		}
	}

	void thread(unsigned i)
	{
		if (i == 0)
			adds();
		else if (i == 1)
			goes_to_sleep();
		else
			stops_looking();
	}

	void after()
	{
		RL_ASSERT(!sleeps($) || wake.load(relaxed) ||
			  !count.load(relaxed));
	}
};

int main()
{
	static const char *const names[] = {
		"going idle against adding work",
		"no light fence",
		"no heavy fence",
		"no second look",
		"who stops looking wakes nobody",
		"who stops looking has no fence",
		"who stops looking looks before it says so",
	};

	return !check<idle_model, 6>::with(names);
}
