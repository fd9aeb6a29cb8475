/* SPDX-License-Identifier: Apache-2.0 */
/* stop.hpp - stop tokens, and waiting for any lock or a stop; part of uthread.hpp. */
#ifndef UTHREAD_STOP_HPP
#define UTHREAD_STOP_HPP

#include <atomic>
#include <memory>
#include <utility>
#if __cplusplus >= 202002L && __has_include(<stop_token>)
#include <stop_token>
#endif

#include "locks.hpp"

namespace uthreads {

/* ---- stop tokens ---- */

#ifdef __cpp_lib_jthread
using std::nostopstate;
using std::stop_callback;
using std::stop_source;
using std::stop_token;
#else

namespace detail {

struct stop_call {
	virtual void
	run() noexcept = 0; /* as the standard's: it does not throw */
	stop_call *next = nullptr, *prev = nullptr;
	bool listed = false;

protected:
	~stop_call() = default;
};

class stop_state {
public:
	std::atomic<bool> requested{ false };
	std::atomic<long> sources{ 0 };

	bool request()
	{
		std::unique_lock<mutex> lock(m_);

		if (requested.exchange(true))
			return false;
		runner_ = self();
		while (first_) {
			stop_call *c = first_;

			unlink(c);
			running_ = c;
			lock.unlock();
			c->run(); /* then it may be gone */
			lock.lock();
			running_ = nullptr;
			ran_.notify_all();
		}
		return true;
	}
	/* False: it has been requested. */
	bool add(stop_call *c)
	{
		std::lock_guard<mutex> lock(m_);

		if (requested)
			return false;
		c->next = first_;
		c->prev = nullptr;
		if (first_)
			first_->prev = c;
		first_ = c;
		c->listed = true;
		return true;
	}
	/* It does not run any more, but in the caller. */
	void remove(stop_call *c)
	{
		std::unique_lock<mutex> lock(m_);
		no_cancel guard;

		if (c->listed)
			unlink(c);
		else if (runner_ != self())
			ran_.wait(lock, [&] { return running_ != c; });
	}

private:
	static const void *self()
	{
		static thread_local char plain;
		const void *me = uthread_self();

		return me ? me : &plain;
	}
	void unlink(stop_call *c)
	{
		(c->prev ? c->prev->next : first_) = c->next;
		if (c->next)
			c->next->prev = c->prev;
		c->listed = false;
	}

	mutex m_;
	condition_variable ran_;
	stop_call *first_ = nullptr, *running_ = nullptr;
	const void *runner_ = nullptr;
};

} // namespace detail

/* As std::stop_token and its sisters of C++20. */
struct nostopstate_t {
	explicit nostopstate_t() = default;
};
inline constexpr nostopstate_t nostopstate{};

class stop_token {
public:
	stop_token() noexcept = default;
	bool stop_requested() const noexcept
	{
		return s_ && s_->requested;
	}
	bool stop_possible() const noexcept
	{
		return s_ && (s_->requested || s_->sources);
	}
	void swap(stop_token &o) noexcept
	{
		s_.swap(o.s_);
	}
	friend void swap(stop_token &a, stop_token &b) noexcept
	{
		a.swap(b);
	}
	friend bool operator==(const stop_token &a,
			       const stop_token &b) noexcept
	{
		return a.s_ == b.s_;
	}
	friend bool operator!=(const stop_token &a,
			       const stop_token &b) noexcept
	{
		return a.s_ != b.s_;
	}

private:
	friend class stop_source;
	template <class> friend class stop_callback;

	std::shared_ptr<detail::stop_state> s_;
};

class stop_source {
public:
	stop_source() : s_(std::make_shared<detail::stop_state>())
	{
		s_->sources++;
	}
	explicit stop_source(nostopstate_t) noexcept
	{
	}
	stop_source(const stop_source &o) noexcept : s_(o.s_)
	{
		if (s_)
			s_->sources++;
	}
	stop_source(stop_source &&o) noexcept : s_(std::move(o.s_))
	{
	}
	stop_source &operator=(stop_source o) noexcept
	{
		std::swap(s_, o.s_);
		return *this;
	}
	~stop_source()
	{
		if (s_)
			s_->sources--;
	}
	bool request_stop()
	{
		/* It may go with the last source in one of the calls. */
		const std::shared_ptr<detail::stop_state> s = s_;

		return s && s->request();
	}
	bool stop_requested() const noexcept
	{
		return s_ && s_->requested;
	}
	bool stop_possible() const noexcept
	{
		return s_ != nullptr;
	}
	stop_token get_token() const noexcept
	{
		stop_token t;

		t.s_ = s_;
		return t;
	}
	void swap(stop_source &o) noexcept
	{
		s_.swap(o.s_);
	}
	friend void swap(stop_source &a, stop_source &b) noexcept
	{
		a.swap(b);
	}
	friend bool operator==(const stop_source &a,
			       const stop_source &b) noexcept
	{
		return a.s_ == b.s_;
	}
	friend bool operator!=(const stop_source &a,
			       const stop_source &b) noexcept
	{
		return a.s_ != b.s_;
	}

private:
	std::shared_ptr<detail::stop_state> s_;
};

template <class Callback> class stop_callback : private detail::stop_call {
public:
	using callback_type = Callback;

	template <class C>
	stop_callback(const stop_token &t, C &&call)
		: call_(std::forward<C>(call)), s_(t.s_)
	{
		if (s_ && !s_->add(this)) {
			s_ = nullptr;
			call_();
		}
	}
	~stop_callback()
	{
		if (s_)
			s_->remove(this);
	}
	stop_callback(const stop_callback &) = delete;
	stop_callback &operator=(const stop_callback &) = delete;

private:
	void run() noexcept override
	{
		call_();
	}

	Callback call_;
	std::shared_ptr<detail::stop_state> s_;
};

template <class C> stop_callback(stop_token, C) -> stop_callback<C>;
#endif

/* With any lock, and with a stop token. */
class condition_variable_any {
public:
	condition_variable_any() : m_(std::make_shared<mutex>())
	{
	}
	condition_variable_any(const condition_variable_any &) = delete;
	condition_variable_any &
	operator=(const condition_variable_any &) = delete;

	void notify_one()
	{
		std::lock_guard<mutex> lock(*m_);

		c_.notify_one();
	}
	void notify_all()
	{
		std::lock_guard<mutex> lock(*m_);

		c_.notify_all();
	}
	template <class Lock> void wait(Lock &lock)
	{
		unlocked<Lock> u(m_, lock);

		c_.wait(u.inner);
	}
	template <class Lock, class Predicate>
	void wait(Lock &lock, Predicate holds)
	{
		while (!holds())
			wait(lock);
	}
	template <class Lock, class Clock, class Duration>
	cv_status wait_until(Lock &lock,
			     const std::chrono::time_point<Clock, Duration> &t)
	{
		unlocked<Lock> u(m_, lock);

		return c_.wait_until(u.inner, t);
	}
	template <class Lock, class Clock, class Duration, class Predicate>
	bool wait_until(Lock &lock,
			const std::chrono::time_point<Clock, Duration> &t,
			Predicate holds)
	{
		while (!holds())
			if (wait_until(lock, t) == cv_status::timeout)
				return holds();
		return true;
	}
	template <class Lock, class Rep, class Period, class Predicate>
	bool wait_for(Lock &lock, const std::chrono::duration<Rep, Period> &d,
		      Predicate holds)
	{
		return wait_until(lock, detail::after(d), std::move(holds));
	}
	template <class Lock, class Rep, class Period>
	cv_status wait_for(Lock &lock,
			   const std::chrono::duration<Rep, Period> &d)
	{
		return wait_until(lock, detail::after(d));
	}
	/* Until it holds, or a stop is requested: whether it holds. */
	template <class Lock, class Predicate>
	bool wait(Lock &lock, stop_token stop, Predicate holds)
	{
		return wait_or_stop(lock, std::move(stop), holds,
				    [this](std::unique_lock<mutex> &inner) {
					    c_.wait(inner);
					    return cv_status::no_timeout;
				    });
	}
	/* Or that time has come. */
	template <class Lock, class Clock, class Duration, class Predicate>
	bool wait_until(Lock &lock, stop_token stop,
			const std::chrono::time_point<Clock, Duration> &t,
			Predicate holds)
	{
		return wait_or_stop(lock, std::move(stop), holds,
				    [&](std::unique_lock<mutex> &inner) {
					    return c_.wait_until(inner, t);
				    });
	}
	template <class Lock, class Rep, class Period, class Predicate>
	bool wait_for(Lock &lock, stop_token stop,
		      const std::chrono::duration<Rep, Period> &d,
		      Predicate holds)
	{
		return wait_until(lock, std::move(stop), detail::after(d),
				  std::move(holds));
	}

private:
	/* The inner lock is taken before the caller's is given up, and given up
	 * before that is taken again. */
	template <class Lock> struct unlocked {
		unlocked(const std::shared_ptr<mutex> &m, Lock &l)
			: outer(l), kept(m), inner(*m)
		{
			outer.unlock();
		}
		~unlocked() noexcept(false)
		{
			inner.unlock();
			outer.lock();
		}
		Lock &outer;
		std::shared_ptr<mutex> kept; /* the object may go meanwhile */
		std::unique_lock<mutex> inner;
	};

	template <class Lock, class Predicate, class Wait>
	bool wait_or_stop(Lock &lock, stop_token stop, Predicate &holds,
			  Wait wait_once)
	{
		auto wake = [this] { notify_all(); };
		stop_callback<decltype(wake)> call(stop, wake);
		bool over = false;

		while (!holds()) {
			if (over)
				return false;
			unlocked<Lock> u(m_, lock);

			over = stop.stop_requested() ||
			       wait_once(u.inner) == cv_status::timeout;
		}
		return true;
	}

	std::shared_ptr<mutex> m_;
	condition_variable c_;
};

} // namespace uthreads

#endif /* UTHREAD_STOP_HPP */
