/* SPDX-License-Identifier: Apache-2.0 */
/* pthread.hpp - POSIX threads, as glibc makes them. Stacks are its default. */
#include "../work.hpp"
#include "by_condition.hpp"

#include <gnu/libc-version.h>
#include <pthread.h>

#define RT_MODEL "pthread"
#define RT_SYNC 1

namespace rt {

using function = void *(void *);
using thread = pthread_t;

constexpr bool several = true, foreign_main = true;

inline std::string version()
{
	return std::string("glibc ") + gnu_get_libc_version();
}

inline void ok(int error, const char *what)
{
	if (error)
		unmeasured(RT_MODEL, version(),
			   std::string(what) + ": " + std::strerror(error));
}

inline void start_up(const trial &)
{
}

template <typename Body> void inside(Body body)
{
	body();
}

inline thread create(function *fn, void *argument)
{
	thread made;

	ok(pthread_create(&made, nullptr, fn, argument), "pthread_create");
	return made;
}

inline void join(thread which)
{
	ok(pthread_join(which, nullptr), "pthread_join");
}

inline void yield()
{
	sched_yield();
}

inline void sleep(std::int64_t ns)
{
	const timespec t = { ns / 1000000000, ns % 1000000000 };

	nanosleep(&t, nullptr);
}

struct mutex {
	pthread_mutex_t of = PTHREAD_MUTEX_INITIALIZER;

	void lock()
	{
		pthread_mutex_lock(&of);
	}
	void unlock()
	{
		pthread_mutex_unlock(&of);
	}
};

struct condition {
	pthread_cond_t of = PTHREAD_COND_INITIALIZER;

	void wait(mutex &m)
	{
		pthread_cond_wait(&of, &m.of);
	}
	void signal()
	{
		pthread_cond_signal(&of);
	}
};

using channel = slot<mutex, condition>;

} // namespace rt
