// SPDX-License-Identifier: Apache-2.0
//
// bias.cc - the biased lock (src/base/spin.h): its owner and two thieves.
#include "model.hpp"

template <int fault> struct bias_model : rl::test_suite<bias_model<fault>, 3> {
	rl::atomic<int> owner, remote;
	rl::var<int> queue;

	void before()
	{
		owner($) = 0;
		remote($) = 0;
		queue($) = 0;
	}

	void light()
	{
		if (fault != 1)
			fence();
	}

	void owner_section()
	{
		owner.store(1, relaxed);
		light();
		if (remote.load(fault == 5 ? rl::mo_relaxed : rl::mo_acquire,
				$)) {
			do {
				owner.store(0, release);
				while (remote.load(acquire))
					rl::yield(1, $);
				owner.store(1, relaxed);
				light();
			} while (remote.load(acquire));
		}
		queue($) = queue($) + 1;
		owner.store(0, fault == 3 ? rl::mo_relaxed : rl::mo_release, $);
	}

	void thief_section()
	{
		int n;

		if (remote.load(relaxed) || remote.exchange(1, acquire))
			return;
		if (fault != 2)
			fence();
		for (n = 0; n < 4; n++) {
			if (!owner.load(fault == 6 ? rl::mo_relaxed :
						     rl::mo_acquire,
					$)) {
				queue($) = queue($) + 1;
				break;
			}
			rl::yield(1, $);
		}
		remote.store(0, fault == 4 ? rl::mo_relaxed : rl::mo_release,
			     $);
	}

	void thread(unsigned i)
	{
		if (i) {
			thief_section();
		} else {
			owner_section();
			owner_section();
		}
	}
};

int main()
{
	static const char *const names[] = {
		"the biased lock",
		"no light fence",
		"no heavy fence",
		"the owner's unlock is relaxed",
		"a thief's unlock is relaxed",
		"the owner's look is relaxed",
		"a thief's look is relaxed",
	};

	return !check<bias_model, 6>::with(names);
}
