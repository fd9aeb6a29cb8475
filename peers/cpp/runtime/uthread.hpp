/* SPDX-License-Identifier: Apache-2.0 */
/* uthread.hpp - libuthread as it is installed: ticks are on, stacks its default. */
#include "../work.hpp"

#include <uthread.h>
#include <uthread/channel.h>

#define RT_MODEL "uthread"
#define RT_SYNC 1

namespace rt {

using function = void *(void *);
using thread = uthread_t;

constexpr bool several = true, foreign_main = true;

inline uthread_attr_t attributes;

inline std::string version()
{
	return "libuthread " PEER_VERSION;
}

inline void ok(int error, const char *what)
{
	if (error)
		unmeasured(RT_MODEL, version(),
			   std::string(what) + ": " + std::strerror(error));
}

inline void start_up(const trial &t)
{
	const enum uthread_tls tls = t.own_tls ? UTHREAD_TLS_OWN :
						 UTHREAD_TLS_SHARED;
	struct uthread_config config = {};

	config.size = sizeof(config);
	config.workers = t.workers;
	config.cpus = t.cpus.data();
	config.ncpus = static_cast<int>(t.cpus.size());
	config.tls = tls;
	ok(uthread_init(&config), "uthread_init");
	uthread_attr_init(&attributes);
	ok(uthread_attr_settls(&attributes, tls), "uthread_attr_settls");
}

inline thread create(function *fn, void *argument)
{
	thread made;

	ok(uthread_create(&made, &attributes, fn, argument), "uthread_create");
	return made;
}

inline void join(thread which)
{
	ok(uthread_join(which, nullptr), "uthread_join");
}

template <typename Body> void inside(Body body)
{
	join(create(
		[](void *of) -> void * {
			(*static_cast<Body *>(of))();
			return nullptr;
		},
		&body));
}

inline void yield()
{
	uthread_yield();
}

inline void sleep(std::int64_t ns)
{
	uthread_sleep(static_cast<std::uint64_t>(ns));
}

struct mutex {
	uthread_mutex_t of = UTHREAD_MUTEX_INITIALIZER;

	void lock()
	{
		uthread_mutex_lock(&of);
	}
	void unlock()
	{
		uthread_mutex_unlock(&of);
	}
};

struct condition {
	uthread_cond_t of = UTHREAD_COND_INITIALIZER;

	void wait(mutex &m)
	{
		uthread_cond_wait(&of, &m.of);
	}
	void signal()
	{
		uthread_cond_signal(&of);
	}
};

/* Without room, as Go's. */
class channel {
public:
	channel()
	{
		ok(uthread_chan_create(&of_, sizeof(std::int64_t), 0),
		   "uthread_chan_create");
	}
	~channel()
	{
		uthread_chan_destroy(of_);
	}
	channel(const channel &) = delete;
	channel &operator=(const channel &) = delete;

	void send(std::int64_t value)
	{
		uthread_chan_send(of_, &value);
	}
	std::int64_t receive()
	{
		std::int64_t value = -1;

		uthread_chan_recv(of_, &value);
		return value;
	}

private:
	uthread_chan_t of_;
};

} // namespace rt
