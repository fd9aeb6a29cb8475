/* SPDX-License-Identifier: Apache-2.0 */
/*
 * boost.hpp - Boost.Fiber: its default scheduler, round robin, on one kernel thread. Up
 * to a thousand fibers have stacks from its pool, which is quicker to create from; more
 * have its default allocator, for the pool doubles what it asks for.
 */
#include "../work.hpp"

#include <boost/fiber/all.hpp>
#include <boost/version.hpp>

#define RT_MODEL "boost"
#define RT_SYNC 1

namespace rt {

namespace bf = boost::fibers;

using function = void *(void *);
using thread = bf::fiber;

constexpr bool several = false, foreign_main = false;
constexpr std::int64_t POOLED = 1000;

inline bool pooled;
inline bf::pooled_fixedsize_stack *pool;

inline std::string version()
{
	return std::string("Boost ") + BOOST_LIB_VERSION;
}

inline void start_up(const trial &t)
{
	pooled = t.threads <= POOLED;
	pool = new bf::pooled_fixedsize_stack;
}

template <typename Body> void inside(Body body)
{
	body();
}

inline thread create(function *fn, void *argument)
try {
	const auto body = [fn, argument] { fn(argument); };

	if (pooled)
		return bf::fiber(std::allocator_arg, *pool, body);
	return bf::fiber(body);
} catch (const std::exception &error) {
	unmeasured(RT_MODEL, version(), error.what());
}

inline void join(thread &which)
{
	which.join();
}

inline void yield()
{
	boost::this_fiber::yield();
}

inline void sleep(std::int64_t ns)
{
	boost::this_fiber::sleep_for(std::chrono::nanoseconds(ns));
}

using mutex = bf::mutex;

struct condition {
	bf::condition_variable of;

	void wait(mutex &m)
	{
		std::unique_lock<mutex> held(m, std::adopt_lock);

		of.wait(held);
		held.release();
	}
	void signal()
	{
		of.notify_one();
	}
};

/* Without room, as Go's. */
struct channel {
	bf::unbuffered_channel<std::int64_t> of;

	void send(std::int64_t value)
	{
		of.push(value);
	}
	std::int64_t receive()
	{
		return of.value_pop();
	}
};

} // namespace rt
