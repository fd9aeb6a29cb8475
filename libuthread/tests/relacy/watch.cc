// SPDX-License-Identifier: Apache-2.0
//
// watch.cc - marks of who has work for others (src/sched/watch.c): one that adds work,
// whose mark may be there from before, for nothing, and two that go to sleep and take all
// marks.
#include "model.hpp"

template <int fault>
struct watch_model : rl::test_suite<watch_model<fault>, 3> {
	rl::atomic<int> count, mark, nidle, wake;
	rl::var<int> asleep[2];

	void before()
	{
		count($) = 0;
		mark($) = (int)rl::rand(2);
		nidle($) = 0;
		wake($) = 0;
		asleep[0]($) = asleep[1]($) = 0;
	}

	// ready_from(): local_push(), poke()
	void adds()
	{
		count.store(1, relaxed);
		if (fault != 1)
			fence(); // light
		if (!mark.load(relaxed))
			mark.fetch_add(1, seq_cst);
		if (fault != 5)
			fence(); // light
		if (nidle.load(relaxed))
			wake.store(1, release);
	}

	// go_idle(). False: it stays awake, and looks again.
	bool goes_to_sleep()
	{
		int mine = 0;

		nidle.fetch_add(1, seq_cst);
		if (fault != 4 && mark.load(relaxed))
			mine = mark.exchange(0, seq_cst);
		if (fault != 2)
			fence(); // heavy
		if (fault == 4 && mark.load(relaxed))
			mine = mark.exchange(0, seq_cst);
		if (fault == 3)
			mine = 0;
		if (fault != 6)
			mine |= mark.load(relaxed);
		if (!mine || !count.load(relaxed))
			return true;
		if (!mark.load(relaxed))
			mark.fetch_add(1, seq_cst);
		return false;
	}

	void thread(unsigned i)
	{
		if (i == 0)
			adds();
		else
			asleep[i - 1]($) = goes_to_sleep();
	}

	// Somebody is awake to see it: who stayed, or who is woken and finds the mark.
	void after()
	{
		RL_ASSERT(!count.load(relaxed) || !asleep[0]($) ||
			  !asleep[1]($) ||
			  (wake.load(relaxed) && mark.load(relaxed)));
	}
};

int main()
{
	static const char *const names[] = {
		"marks of who has work for others",
		"no light fence between the work and the look at the mark",
		"no heavy fence",
		"who took a mark does not look at what it was for",
		"marks are taken behind the fence",
		"no light fence between the mark and the look for sleepers",
		"no look at the marks that came meanwhile",
	};

	return !check<watch_model, 6>::with(names);
}
