/* SPDX-License-Identifier: Apache-2.0 */
/* locks.hpp - mutexes and condition variables, and what the other parts share; part of uthread.hpp. */
#ifndef UTHREAD_LOCKS_HPP
#define UTHREAD_LOCKS_HPP

#include <chrono>
#include <mutex>
#include <system_error>
#include <type_traits>

#include "../uthread.h"

namespace uthreads {

namespace detail {

inline void check(int err, const char *what)
{
	if (err)
		throw std::system_error(err, std::generic_category(), what);
}

/* The caller is not cancelled while this lives: for destructors. */
class no_cancel {
public:
	no_cancel() noexcept
	{
		if (uthread_self())
			uthread_setcancelstate(UTHREAD_CANCEL_DISABLE, &old_);
	}
	~no_cancel()
	{
		if (uthread_self())
			uthread_setcancelstate(old_, nullptr);
	}
	no_cancel(const no_cancel &) = delete;
	no_cancel &operator=(const no_cancel &) = delete;

private:
	int old_ = UTHREAD_CANCEL_ENABLE;
};

/* A time point as the C functions want it: CLOCK_MONOTONIC, which is what
 * steady_clock is; what lies beyond a lifetime is no deadline. */
class deadline {
public:
	template <class Clock, class Duration>
	explicit deadline(const std::chrono::time_point<Clock, Duration> &t)
	{
		using namespace std::chrono;

		if constexpr (std::is_same_v<Clock, steady_clock>)
			set(t.time_since_epoch(), nanoseconds(0));
		else
			set(left(t.time_since_epoch(),
				 Clock::now().time_since_epoch()),
			    steady_clock::now().time_since_epoch());
	}

	template <class Rep, class Period>
	explicit deadline(const std::chrono::duration<Rep, Period> &d)
	{
		set(d, std::chrono::steady_clock::now().time_since_epoch());
	}

	const timespec *get() const noexcept
	{
		return none_ ? nullptr : &at_;
	}

private:
	/* None, if it is over: the difference of the two might not fit. */
	template <class To, class Now>
	static auto left(const To &to, const Now &now) -> decltype(to - now)
	{
		return to > now ? to - now : decltype(to - now)::zero();
	}

	template <class Rep, class Period>
	void set(const std::chrono::duration<Rep, Period> &d,
		 std::chrono::nanoseconds from)
	{
		using namespace std::chrono;
		constexpr double lifetime_s = 3e9;
		const double s = duration<double>(d).count();
		nanoseconds ns(0);

		none_ = s > lifetime_s;
		if (none_)
			return;
		if (s > -lifetime_s)
			ns = from + ceil<nanoseconds>(d);
		if (ns.count() < 0)
			ns = nanoseconds(0);
		at_.tv_sec = ns.count() / 1000000000;
		at_.tv_nsec = ns.count() % 1000000000;
	}

	timespec at_ = {};
	bool none_ = false;
};

/* So long from now, or at the end of the clock. */
template <class Rep, class Period>
std::chrono::steady_clock::time_point
after(const std::chrono::duration<Rep, Period> &d)
{
	using namespace std::chrono;
	const double s = duration<double>(d).count();

	return s > 3e9 ? steady_clock::time_point::max() :
	       s < 0   ? steady_clock::now() :
			 steady_clock::now() + ceil<nanoseconds>(d);
}

/* wait(deadline) until it says something else, or that clock has come so far. */
template <class Clock, class Duration, class Wait>
int until(const std::chrono::time_point<Clock, Duration> &t, Wait wait)
{
	for (;;) {
		const int err = wait(deadline(t).get());

		if (err != ETIMEDOUT ||
		    std::is_same_v<Clock, std::chrono::steady_clock> ||
		    Clock::now() >= t)
			return err;
	}
}

} // namespace detail

/* ---- locks ---- */

/* std::timed_mutex. */
class mutex {
public:
	using native_handle_type = uthread_mutex_t *;

	constexpr mutex() noexcept = default;
	~mutex()
	{
		uthread_mutex_destroy(&m_);
	}
	mutex(const mutex &) = delete;
	mutex &operator=(const mutex &) = delete;

	void lock()
	{
		detail::check(uthread_mutex_lock(&m_), "mutex::lock");
	}
	bool try_lock()
	{
		return !uthread_mutex_trylock(&m_);
	}
	template <class Rep, class Period>
	bool try_lock_for(const std::chrono::duration<Rep, Period> &d)
	{
		return timed(detail::deadline(d).get());
	}
	template <class Clock, class Duration>
	bool try_lock_until(const std::chrono::time_point<Clock, Duration> &t)
	{
		return !detail::until(t, [this](const timespec *at) {
			return timed(at) ? 0 : ETIMEDOUT;
		});
	}
	void unlock()
	{
		uthread_mutex_unlock(&m_);
	}
	native_handle_type native_handle() noexcept
	{
		return &m_;
	}

protected:
	explicit constexpr mutex(const uthread_mutex_t &m) noexcept : m_(m)
	{
	}

private:
	bool timed(const timespec *at)
	{
		const int err = at ? uthread_mutex_timedlock(&m_, at) :
				     uthread_mutex_lock(&m_);

		if (err && err != ETIMEDOUT)
			detail::check(err, "mutex::try_lock_until");
		return !err;
	}

	uthread_mutex_t m_ = UTHREAD_MUTEX_INITIALIZER;
};

/* std::recursive_timed_mutex. */
class recursive_mutex : public mutex {
public:
	constexpr recursive_mutex() noexcept
		: mutex(uthread_mutex_t UTHREAD_RECURSIVE_MUTEX_INITIALIZER)
	{
	}
};

using timed_mutex = mutex;
using recursive_timed_mutex = recursive_mutex;

/* std::shared_timed_mutex; writers are not starved. */
class shared_mutex {
public:
	using native_handle_type = uthread_rwlock_t *;

	constexpr shared_mutex() noexcept = default;
	~shared_mutex()
	{
		uthread_rwlock_destroy(&l_);
	}
	shared_mutex(const shared_mutex &) = delete;
	shared_mutex &operator=(const shared_mutex &) = delete;

	void lock()
	{
		detail::check(uthread_rwlock_wrlock(&l_), "shared_mutex::lock");
	}
	bool try_lock()
	{
		return !uthread_rwlock_trywrlock(&l_);
	}
	void unlock()
	{
		uthread_rwlock_unlock(&l_);
	}
	void lock_shared()
	{
		detail::check(uthread_rwlock_rdlock(&l_),
			      "shared_mutex::lock_shared");
	}
	bool try_lock_shared()
	{
		return !uthread_rwlock_tryrdlock(&l_);
	}
	void unlock_shared()
	{
		uthread_rwlock_unlock(&l_);
	}
	template <class Rep, class Period>
	bool try_lock_for(const std::chrono::duration<Rep, Period> &d)
	{
		return try_lock_until(detail::after(d));
	}
	template <class Clock, class Duration>
	bool try_lock_until(const std::chrono::time_point<Clock, Duration> &t)
	{
		return timed(t, uthread_rwlock_wrlock,
			     uthread_rwlock_timedwrlock);
	}
	template <class Rep, class Period>
	bool try_lock_shared_for(const std::chrono::duration<Rep, Period> &d)
	{
		return try_lock_shared_until(detail::after(d));
	}
	template <class Clock, class Duration>
	bool
	try_lock_shared_until(const std::chrono::time_point<Clock, Duration> &t)
	{
		return timed(t, uthread_rwlock_rdlock,
			     uthread_rwlock_timedrdlock);
	}
	native_handle_type native_handle() noexcept
	{
		return &l_;
	}

private:
	template <class Clock, class Duration>
	bool timed(const std::chrono::time_point<Clock, Duration> &t,
		   int (*take)(uthread_rwlock_t *),
		   int (*take_timed)(uthread_rwlock_t *, const timespec *))
	{
		const int err = detail::until(t, [&](const timespec *at) {
			return at ? take_timed(&l_, at) : take(&l_);
		});

		if (err && err != ETIMEDOUT)
			detail::check(err, "shared_mutex: timed lock");
		return !err;
	}

	uthread_rwlock_t l_ = UTHREAD_RWLOCK_INITIALIZER;
};

using shared_timed_mutex = shared_mutex;

enum class cv_status { no_timeout, timeout };

/* With std::unique_lock<uthreads::mutex>. */
class condition_variable {
public:
	using native_handle_type = uthread_cond_t *;

	constexpr condition_variable() noexcept = default;
	~condition_variable()
	{
		uthread_cond_destroy(&c_);
	}
	condition_variable(const condition_variable &) = delete;
	condition_variable &operator=(const condition_variable &) = delete;

	void notify_one() noexcept
	{
		uthread_cond_signal(&c_);
	}
	void notify_all() noexcept
	{
		uthread_cond_broadcast(&c_);
	}
	void wait(std::unique_lock<mutex> &lock)
	{
		detail::check(uthread_cond_wait(&c_,
						lock.mutex()->native_handle()),
			      "condition_variable::wait");
	}
	template <class Predicate>
	void wait(std::unique_lock<mutex> &lock, Predicate holds)
	{
		while (!holds())
			wait(lock);
	}
	template <class Clock, class Duration>
	cv_status wait_until(std::unique_lock<mutex> &lock,
			     const std::chrono::time_point<Clock, Duration> &t)
	{
		const timespec *at;
		const detail::deadline d(t);
		int err;

		at = d.get();
		if (!at) {
			wait(lock);
			return cv_status::no_timeout;
		}
		err = uthread_cond_timedwait(&c_, lock.mutex()->native_handle(),
					     at);
		if (err && err != ETIMEDOUT)
			detail::check(err, "condition_variable::wait_until");
		/* Another clock may not have come so far: a wake-up for no
		 * reason, which everybody expects. */
		return err && Clock::now() >= t ? cv_status::timeout :
						  cv_status::no_timeout;
	}
	template <class Clock, class Duration, class Predicate>
	bool wait_until(std::unique_lock<mutex> &lock,
			const std::chrono::time_point<Clock, Duration> &t,
			Predicate holds)
	{
		while (!holds())
			if (wait_until(lock, t) == cv_status::timeout)
				return holds();
		return true;
	}
	template <class Rep, class Period>
	cv_status wait_for(std::unique_lock<mutex> &lock,
			   const std::chrono::duration<Rep, Period> &d)
	{
		return wait_until(lock, detail::after(d));
	}
	template <class Rep, class Period, class Predicate>
	bool wait_for(std::unique_lock<mutex> &lock,
		      const std::chrono::duration<Rep, Period> &d,
		      Predicate holds)
	{
		return wait_until(lock, detail::after(d), std::move(holds));
	}
	native_handle_type native_handle() noexcept
	{
		return &c_;
	}

private:
	uthread_cond_t c_ = UTHREAD_COND_INITIALIZER;
};

} // namespace uthreads

#endif /* UTHREAD_LOCKS_HPP */
