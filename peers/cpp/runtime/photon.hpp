/* SPDX-License-Identifier: Apache-2.0 */
/*
 * photon.hpp - Photon: one vCPU, for a thread of its stays where it was created until its
 * program moves it. main is a thread of it, stacks are its default.
 */
#include "../work.hpp"
#include "by_condition.hpp"

#include <photon/photon.h>
#include <photon/thread/thread.h>

#define RT_MODEL "photon"
#define RT_SYNC 1

namespace rt {

using function = void *(void *);
using thread = photon::join_handle *;

constexpr bool several = false, foreign_main = false;

/* It has no macro for that: tools/peers.sh is told. */
inline std::string version()
{
	return "Photon " PEER_VERSION;
}

inline void start_up(const trial &)
{
	if (photon::init(photon::INIT_EVENT_EPOLL, photon::INIT_IO_NONE))
		unmeasured(RT_MODEL, version(), "photon::init");
}

template <typename Body> void inside(Body body)
{
	body();
}

inline thread create(function *fn, void *argument)
{
	photon::thread *made = photon::thread_create(fn, argument);

	if (!made)
		unmeasured(RT_MODEL, version(),
			   std::string("thread_create: ") +
				   std::strerror(errno));
	return photon::thread_enable_join(made);
}

inline void join(thread which)
{
	photon::thread_join(which);
}

inline void yield()
{
	photon::thread_yield();
}

inline void sleep(std::int64_t ns)
{
	photon::thread_usleep(static_cast<std::uint64_t>((ns + 999) / 1000));
}

using mutex = photon::mutex;

struct condition {
	photon::condition_variable of;

	void wait(mutex &m)
	{
		of.wait(m);
	}
	void signal()
	{
		of.notify_one();
	}
};

using channel = slot<mutex, condition>;

} // namespace rt
