// SPDX-License-Identifier: Apache-2.0
//
// wait.cc - parking and waking (src/sched/waiter.h, ask.h): one that waits and leaves its
// stack, one that wakes it without a compare-and-swap, and one that asks it to end.
// Whoever claims it makes it ready, and runs it when it has left its stack.
#include "model.hpp"

template <int fault> struct wait_model : rl::test_suite<wait_model<fault>, 3> {
	enum { WAITING, CHOSEN, TIMED_OUT };

	rl::atomic<int> state, choosing, flags, queued, busy;
	rl::var<int> on_its_stack, made_ready;

	void before()
	{
		state($) = WAITING;
		choosing($) = 0;
		flags($) = 0;
		queued($) = 0;
		busy($) = 1;
		on_its_stack($) = 0;
		made_ready($) = 0;
	}

	// It is the caller's: nobody else makes it ready, nor before it has left.
	void make_ready()
	{
		made_ready($) = made_ready($) + 1;
		RL_ASSERT(made_ready($) == 1);
		while (busy.load(fault == 5 ? rl::mo_relaxed : rl::mo_acquire,
				 $))
			rl::yield(1, $);
		on_its_stack($) = on_its_stack($) + 1;
	}

	bool claim(int to)
	{
		int expected = WAITING;

		return state.compare_exchange_strong(expected, to, acq_rel);
	}

	void waits()
	{
		queued.store(1, release); // the object's unlock
		on_its_stack($) = 1;
		busy.store(0, fault == 4 ? rl::mo_relaxed : rl::mo_release, $);
	}

	void wakes()
	{
		if (!queued.load(acquire))
			return; // nobody waits yet
		choosing.store(1, relaxed);
		if (fault != 1)
			fence(); // light
		if (!flags.load(acquire) && state.load(relaxed) == WAITING) {
			state.store(CHOSEN, release);
			make_ready();
			return;
		}
		choosing.store(0, release);
		if (claim(CHOSEN))
			make_ready();
	}

	void asks()
	{
		if (!queued.load(acquire))
			return;
		flags.fetch_or(1, acq_rel);
		if (fault != 2)
			fence(); // heavy
		while (fault != 3 && choosing.load(acquire) &&
		       state.load(acquire) == WAITING)
			rl::yield(1, $);
		if (claim(TIMED_OUT))
			make_ready();
	}

	void thread(unsigned i)
	{
		if (i == 0)
			waits();
		else if (i == 1)
			wakes();
		else
			asks();
	}
};

int main()
{
	static const char *const names[] = {
		"park, wake and ask",	   "no light fence",
		"no heavy fence",	   "who asks lets nobody choose first",
		"busy is cleared relaxed", "busy is read relaxed",
	};

	return !check<wait_model, 5>::with(names);
}
