/* SPDX-License-Identifier: Apache-2.0 */
/*
 * st.hpp - State Threads: one kernel thread, main is a thread of it, stacks its default.
 * Its condition variables have no mutex, for nobody else runs before one waits. It has
 * no yield: its programs sleep for no time.
 */
#include "../work.hpp"
#include "by_condition.hpp"

#include <st.h>

#define RT_MODEL "st"
#define RT_SYNC 1

namespace rt {

using function = void *(void *);
using thread = st_thread_t;

constexpr bool several = false, foreign_main = false;

inline std::string version()
{
	return "State Threads " PEER_VERSION;
}

[[noreturn]] inline void failed(const char *what)
{
	unmeasured(RT_MODEL, version(),
		   std::string(what) + ": " + std::strerror(errno));
}

inline void start_up(const trial &)
{
	st_set_eventsys(ST_EVENTSYS_ALT);
	if (st_init())
		failed("st_init");
}

template <typename Body> void inside(Body body)
{
	body();
}

inline thread create(function *fn, void *argument)
{
	thread made = st_thread_create(fn, argument, 1, 0);

	if (!made)
		failed("st_thread_create");
	return made;
}

inline void join(thread which)
{
	if (st_thread_join(which, nullptr))
		failed("st_thread_join");
}

inline void yield()
{
	st_usleep(0);
}

inline void sleep(std::int64_t ns)
{
	st_usleep(static_cast<st_utime_t>((ns + 999) / 1000));
}

struct mutex {
	st_mutex_t of = st_mutex_new();

	void lock()
	{
		st_mutex_lock(of);
	}
	void unlock()
	{
		st_mutex_unlock(of);
	}
};

struct condition {
	st_cond_t of = st_cond_new();

	void wait(mutex &m)
	{
		m.unlock();
		st_cond_wait(of);
		m.lock();
	}
	void signal()
	{
		st_cond_signal(of);
	}
};

using channel = slot<mutex, condition>;

} // namespace rt
