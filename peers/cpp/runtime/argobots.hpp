/* SPDX-License-Identifier: Apache-2.0 */
/*
 * argobots.hpp - Argobots: one pool, from which all execution streams take, stacks its
 * default. It has no sleep, and so its programs yield until it is time.
 */
#include "../work.hpp"
#include "by_condition.hpp"

#include <abt.h>

#define RT_MODEL "argobots"
#define RT_SYNC 1

namespace rt {

using function = void *(void *);
using thread = ABT_thread;

constexpr bool several = true, foreign_main = false;

inline ABT_pool pool;

inline std::string version()
{
	return "Argobots " ABT_VERSION;
}

inline void ok(int error, const char *what)
{
	if (error != ABT_SUCCESS)
		unmeasured(RT_MODEL, version(),
			   std::string(what) + ": " + std::to_string(error));
}

inline void start_up(const trial &t)
{
	ABT_xstream stream;

	ok(ABT_init(0, nullptr), "ABT_init");
	ok(ABT_pool_create_basic(ABT_POOL_FIFO,
				 t.workers > 1 ? ABT_POOL_ACCESS_MPMC :
						 ABT_POOL_ACCESS_PRIV,
				 ABT_TRUE, &pool),
	   "ABT_pool_create_basic");
	ok(ABT_xstream_self(&stream), "ABT_xstream_self");
	ok(ABT_xstream_set_main_sched_basic(stream, ABT_SCHED_DEFAULT, 1,
					    &pool),
	   "ABT_xstream_set_main_sched_basic");
	for (int i = 1; i < t.workers; i++)
		ok(ABT_xstream_create_basic(ABT_SCHED_DEFAULT, 1, &pool,
					    ABT_SCHED_CONFIG_NULL, &stream),
		   "ABT_xstream_create_basic");
}

template <typename Body> void inside(Body body)
{
	body();
}

inline thread create(function *fn, void *argument)
{
	/* What it returns stays in a register that nobody reads. */
	const auto plain = reinterpret_cast<void (*)(void *)>(
		reinterpret_cast<void (*)()>(fn));
	thread made;

	ok(ABT_thread_create(pool, plain, argument, ABT_THREAD_ATTR_NULL,
			     &made),
	   "ABT_thread_create");
	return made;
}

inline void join(thread which)
{
	/* Joins, too. */
	ok(ABT_thread_free(&which), "ABT_thread_free");
}

inline void yield()
{
	ABT_thread_yield();
}

inline void sleep(std::int64_t ns)
{
	const std::int64_t until = probe::now() + ns;

	while (probe::now() < until)
		ABT_thread_yield();
}

class mutex {
public:
	mutex()
	{
		ok(ABT_mutex_create(&of), "ABT_mutex_create");
	}
	~mutex()
	{
		ABT_mutex_free(&of);
	}
	mutex(const mutex &) = delete;
	mutex &operator=(const mutex &) = delete;

	void lock()
	{
		ABT_mutex_lock(of);
	}
	void unlock()
	{
		ABT_mutex_unlock(of);
	}

	ABT_mutex of;
};

class condition {
public:
	condition()
	{
		ok(ABT_cond_create(&of_), "ABT_cond_create");
	}
	~condition()
	{
		ABT_cond_free(&of_);
	}
	condition(const condition &) = delete;
	condition &operator=(const condition &) = delete;

	void wait(mutex &m)
	{
		ABT_cond_wait(of_, m.of);
	}
	void signal()
	{
		ABT_cond_signal(of_);
	}

private:
	ABT_cond of_;
};

using channel = slot<mutex, condition>;

} // namespace rt
