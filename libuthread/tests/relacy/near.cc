// SPDX-License-Identifier: Apache-2.0
//
// near.cc - who arms a deadline that its worker keeps against who goes to sleep first
// (src/sched/near.c, idle.c): one that arms and computes, one that goes to sleep, and one
// more, which may come before or after it.
#include "model.hpp"

template <int fault> struct near_model : rl::test_suite<near_model<fault>, 3> {
	rl::atomic<int> near, all, nidle, sees_to_it;

	void before()
	{
		near($) = 0;
		all($) = 0;
		nidle($) = 0;
		sees_to_it($) = 0;
	}

	// near_spill(), under both locks
	void spill()
	{
		if (near.exchange(0, acq_rel))
			all.store(1, release);
	}

	// timer_add(), sched_wake_for_timer()
	void arms()
	{
		if (nidle.load(relaxed)) // saves the way back; not needed
			all.store(1, release);
		else
			near.store(1, release);
		if (fault != 2)
			fence();
		if (!nidle.load(relaxed))
			return; // its tick
		if (fault != 1)
			spill();
		if (all.load(relaxed))
			sees_to_it.store(1, release); // wakes a sleeper
	}

	// go_idle()
	void goes_to_sleep()
	{
		const bool first = nidle.fetch_add(1, acq_rel) == 0;

		if (fault != 4)
			fence(); // heavy
		if (first && fault != 3)
			spill();
		if (all.load(acquire))
			sees_to_it.store(1, release); // take_office()
	}

	void thread(unsigned i)
	{
		if (i == 0)
			arms();
		else
			goes_to_sleep();
	}

	void after()
	{
		RL_ASSERT(!near.load(relaxed));
		RL_ASSERT(sees_to_it.load(relaxed));
	}
};

int main()
{
	static const char *const names[] = {
		"a deadline of its own against going to sleep",
		"who arms does not look again",
		"who arms has no fence",
		"who sleeps first does not put them together",
		"who sleeps first has no fence",
	};

	return !check<near_model, 4>::with(names);
}
