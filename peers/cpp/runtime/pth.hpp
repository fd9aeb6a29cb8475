/* SPDX-License-Identifier: Apache-2.0 */
/* pth.hpp - GNU Pth: one kernel thread, main is a thread of it. Stacks are its default. */
#include "../work.hpp"
#include "by_condition.hpp"

#include <pth.h>

#define RT_MODEL "pth"
#define RT_SYNC 1

namespace rt {

using function = void *(void *);
using thread = pth_t;

constexpr bool several = false, foreign_main = false;

inline std::string version()
{
	const long hex = pth_version();

	return "GNU Pth " + std::to_string((hex >> 20) & 0xf) + "." +
	       std::to_string((hex >> 12) & 0xff) + "." +
	       std::to_string(hex & 0xff);
}

inline void start_up(const trial &)
{
	if (!pth_init())
		unmeasured(RT_MODEL, version(), "pth_init");
}

template <typename Body> void inside(Body body)
{
	body();
}

inline thread create(function *fn, void *argument)
{
	thread made = pth_spawn(PTH_ATTR_DEFAULT, fn, argument);

	if (!made)
		unmeasured(RT_MODEL, version(),
			   std::string("pth_spawn: ") + std::strerror(errno));
	return made;
}

inline void join(thread which)
{
	if (!pth_join(which, nullptr))
		unmeasured(RT_MODEL, version(),
			   std::string("pth_join: ") + std::strerror(errno));
}

inline void yield()
{
	pth_yield(nullptr);
}

inline void sleep(std::int64_t ns)
{
	pth_nap(pth_time(ns / 1000000000, ns % 1000000000 / 1000));
}

struct mutex {
	pth_mutex_t of = PTH_MUTEX_INIT;

	void lock()
	{
		pth_mutex_acquire(&of, FALSE, nullptr);
	}
	void unlock()
	{
		pth_mutex_release(&of);
	}
};

struct condition {
	pth_cond_t of = PTH_COND_INIT;

	void wait(mutex &m)
	{
		pth_cond_await(&of, &m.of, nullptr);
	}
	void signal()
	{
		pth_cond_notify(&of, FALSE);
	}
};

using channel = slot<mutex, condition>;

} // namespace rt
