/* SPDX-License-Identifier: Apache-2.0 */
/* channels.hpp - channels and select; part of uthread.hpp. */
#ifndef UTHREAD_CHANNELS_HPP
#define UTHREAD_CHANNELS_HPP

#include <exception>
#include <iterator>
#include <memory>
#include <new>
#include <optional>

#include "locks.hpp"

namespace uthreads {

/* ---- channels ---- */

enum class chan_status { ok, closed, would_wait, timeout };

/*
 * A channel (uthread_chan_create()) of values of any type that can be moved. Values
 * of trivially copyable types are copied; of others a pointer goes through the
 * channel, and the value is moved when it is sent and when it is received.
 */
template <class T> class channel {
public:
	using value_type = T;

	/* Without room each send meets a receive. */
	explicit channel(std::size_t capacity = 0)
	{
		detail::check(uthread_chan_create(&c_, sizeof(cell), capacity),
			      "channel");
	}
	/* Nobody may be waiting at it. */
	~channel()
	{
		cell x;

		if constexpr (!copied)
			while (!uthread_chan_tryrecv(c_, &x))
				delete x;
		if (uthread_chan_destroy(c_))
			std::terminate();
	}
	channel(const channel &) = delete;
	channel &operator=(const channel &) = delete;

	/* False: it is closed. */
	bool send(T value)
	{
		return put(value, [this](const void *x) {
			       return uthread_chan_send(c_, x);
		       }) == chan_status::ok;
	}
	/* These leave `value` alone unless it was sent, in who is cancelled too. */
	chan_status try_send(T &value)
	{
		return put(value, [this](const void *x) {
			return uthread_chan_trysend(c_, x);
		});
	}
	template <class Clock, class Duration>
	chan_status
	send_until(T &value, const std::chrono::time_point<Clock, Duration> &t)
	{
		return put(value, [&](const void *x) {
			return detail::until(t, [&](const timespec *at) {
				return uthread_chan_send_timed(c_, x, at);
			});
		});
	}
	template <class Rep, class Period>
	chan_status send_for(T &value,
			     const std::chrono::duration<Rep, Period> &d)
	{
		const detail::deadline at(d);

		return put(value, [&](const void *x) {
			return uthread_chan_send_timed(c_, x, at.get());
		});
	}
	/* Nothing: it is closed and empty. */
	std::optional<T> recv()
	{
		std::optional<T> value;

		get(value,
		    [this](void *x) { return uthread_chan_recv(c_, x); });
		return value;
	}
	chan_status try_recv(std::optional<T> &value)
	{
		return get(value, [this](void *x) {
			return uthread_chan_tryrecv(c_, x);
		});
	}
	template <class Clock, class Duration>
	chan_status
	recv_until(std::optional<T> &value,
		   const std::chrono::time_point<Clock, Duration> &t)
	{
		return get(value, [&](void *x) {
			return detail::until(t, [&](const timespec *at) {
				return uthread_chan_recv_timed(c_, x, at);
			});
		});
	}
	template <class Rep, class Period>
	chan_status recv_for(std::optional<T> &value,
			     const std::chrono::duration<Rep, Period> &d)
	{
		const detail::deadline at(d);

		return get(value, [&](void *x) {
			return uthread_chan_recv_timed(c_, x, at.get());
		});
	}
	/* False: it was closed before. */
	bool close() noexcept
	{
		return !uthread_chan_close(c_);
	}
	std::size_t size() const noexcept
	{
		return uthread_chan_count(c_);
	}
	std::size_t capacity() const noexcept
	{
		return uthread_chan_capacity(c_);
	}
	uthread_chan_t native_handle() const noexcept
	{
		return c_;
	}

	/* for (T &value : channel): until it is closed and empty. */
	class iterator {
	public:
		using iterator_category = std::input_iterator_tag;
		using value_type = T;
		using difference_type = std::ptrdiff_t;
		using pointer = T *;
		using reference = T &;

		iterator() = default;
		explicit iterator(channel *c) : c_(c)
		{
			++*this;
		}
		T &operator*() const
		{
			return *value_;
		}
		T *operator->() const
		{
			return std::addressof(*value_);
		}
		iterator &operator++()
		{
			value_ = c_->recv();
			if (!value_)
				c_ = nullptr;
			return *this;
		}
		/* The value alone: there is no way back. */
		auto operator++(int)
		{
			struct {
				T value;
				T &operator*()
				{
					return value;
				}
			} was{ std::move(*value_) };

			++*this;
			return was;
		}
		bool operator==(const iterator &o) const
		{
			return c_ == o.c_;
		}
		bool operator!=(const iterator &o) const
		{
			return c_ != o.c_;
		}

	private:
		channel *c_ = nullptr;
		mutable std::optional<T> value_;
	};
	iterator begin()
	{
		return iterator(this);
	}
	iterator end()
	{
		return iterator();
	}

private:
	template <class, class> friend class recv_case;
	template <class, class> friend class send_case;

	static constexpr bool copied = std::is_trivially_copyable_v<T> &&
				       sizeof(T) <= UTHREAD_CHAN_ITEM_MAX;

	struct bytes {
		alignas(T) unsigned char of[sizeof(T)];
	};
	using cell = std::conditional_t<copied, bytes, T *>;

	/* What came out of the channel. */
	static void take(std::optional<T> &value, cell &x)
	{
		if constexpr (copied) {
			value.emplace(std::move(
				*std::launder(reinterpret_cast<T *>(x.of))));
		} else {
			const std::unique_ptr<T> owned(x);

			value.emplace(std::move(*owned));
		}
	}
	static chan_status status(int err, const char *what)
	{
		switch (err) {
		case 0:
			return chan_status::ok;
		case EPIPE:
			return chan_status::closed;
		case EAGAIN:
			return chan_status::would_wait;
		case ETIMEDOUT:
			return chan_status::timeout;
		default:
			detail::check(err, what);
			return chan_status::closed;
		}
	}
	template <class Send> chan_status put(T &value, Send send)
	{
		int err;

		if constexpr (copied) {
			err = send(std::addressof(value));
		} else {
			on_its_way w(value);
			T *const x = w.owned.get();

			err = send(&x);
			if (!err)
				w.owned.release();
		}
		return status(err, "channel::send");
	}
	/* What was not sent is the caller's again; who is cancelled unwinds. */
	struct on_its_way {
		explicit on_its_way(T &v)
			: value(v), owned(std::make_unique<T>(std::move(v)))
		{
		}
		~on_its_way() noexcept(false) /* as T's moves */
		{
			if (owned)
				give_back(value, *owned);
		}
		T &value;
		std::unique_ptr<T> owned;
	};
	static void give_back(T &value, T &from)
	{
		if constexpr (std::is_move_assignable_v<T>) {
			value = std::move(from);
		} else {
			value.~T();
			::new (static_cast<void *>(std::addressof(value)))
				T(std::move(from));
		}
	}
	template <class Recv>
	chan_status get(std::optional<T> &value, Recv recv)
	{
		cell x;
		const int err = recv(&x);

		value.reset();
		if (!err)
			take(value, x);
		return status(err, "channel::recv");
	}

	uthread_chan_t c_ = nullptr;
};

/* ---- select ---- */

template <class T, class F> class recv_case {
public:
	recv_case(channel<T> &c, F f) : c_(&c), f_(std::move(f))
	{
	}
	void prepare(uthread_case &c)
	{
		c = UTHREAD_RECV_FROM(c_->native_handle(), &x_);
	}
	void finish(const uthread_case &, int err)
	{
		std::optional<T> value;

		if (!err)
			channel<T>::take(value, x_);
		f_(std::move(value));
	}

private:
	channel<T> *c_;
	F f_;
	typename channel<T>::cell x_;
};

template <class T, class F> class send_case {
public:
	send_case(channel<T> &c, T value, F f)
		: c_(&c), value_(std::make_unique<T>(std::move(value))),
		  f_(std::move(f))
	{
	}
	void prepare(uthread_case &c)
	{
		void *item = &x_;

		if constexpr (channel<T>::copied)
			item = value_.get();
		else
			x_ = value_.get();
		/* It was sent before. */
		/* UTHREAD_SEND_TO() is for C, and casts as C does. */
		c = { UTHREAD_CASE_SEND,
		      -1,
		      0,
		      0,
		      value_ ? c_->native_handle() : nullptr,
		      item,
		      { 0 } };
	}
	void finish(const uthread_case &, int err)
	{
		if (!err && !channel<T>::copied)
			value_.release();
		if (!err)
			value_ = nullptr;
		f_(!err);
	}
	/* NULL: it was sent. */
	T *value() noexcept
	{
		return value_.get();
	}

private:
	channel<T> *c_;
	std::unique_ptr<T> value_;
	F f_;
	T *x_ = nullptr;
};

template <class F> class fd_case {
public:
	fd_case(int fd, short events, F f)
		: fd_(fd), events_(events), f_(std::move(f))
	{
	}
	void prepare(uthread_case &c)
	{
		c = UTHREAD_FD_READY(fd_, events_);
	}
	void finish(const uthread_case &c, int err)
	{
		detail::check(err, "select");
		f_(c.revents);
	}

private:
	int fd_;
	short events_;
	F f_;
};

/* f(std::optional<T>): the value, or nothing: closed and empty. */
template <class T, class F> recv_case<T, F> on_recv(channel<T> &c, F f)
{
	return recv_case<T, F>(c, std::move(f));
}
/* f(bool): whether it was sent, or the channel is closed. */
template <class T, class V, class F>
send_case<T, F> on_send(channel<T> &c, V &&value, F f)
{
	return send_case<T, F>(c, T(std::forward<V>(value)), std::move(f));
}
/* f(short): which of the events (POLLIN and the like) are there. */
template <class F> fd_case<F> on_fd(int fd, short events, F f)
{
	return fd_case<F>(fd, events, std::move(f));
}

inline constexpr std::size_t none = static_cast<std::size_t>(-1);

namespace detail {

template <class Wait, class... Cases>
std::size_t select(Wait wait, Cases &...cases)
{
	constexpr std::size_t n = sizeof...(Cases);
	uthread_case c[n ? n : 1];
	std::size_t chosen = n, i = 0;
	int err;

	[[maybe_unused]] auto prepare = [&](auto &one) {
		uthread_case fresh = UTHREAD_RECV_FROM(nullptr, nullptr);

		c[i] = fresh;
		one.prepare(c[i++]);
	};
	(prepare(cases), ...);
	err = wait(c, n, &chosen);
	if (chosen == n) {
		if (err != ETIMEDOUT && err != EAGAIN)
			check(err, "select");
		return none;
	}
	i = 0;
	[[maybe_unused]] auto finish = [&](auto &one) {
		if (i++ == chosen)
			one.finish(c[chosen], err);
	};
	(finish(cases), ...);
	return chosen;
}

} // namespace detail

/* Do one of these (on_recv() and its sisters), and call its function; its index. */
template <class... Cases> std::size_t select(Cases &&...cases)
{
	return detail::select(
		[](uthread_case *c, std::size_t n, std::size_t *chosen) {
			return uthread_select(c, n, nullptr, chosen);
		},
		cases...);
}
/* `none`: nothing can be done just now, */
template <class... Cases> std::size_t try_select(Cases &&...cases)
{
	return detail::select(
		[](uthread_case *c, std::size_t n, std::size_t *chosen) {
			return uthread_select_try(c, n, chosen);
		},
		cases...);
}
/* or until then. */
template <class Clock, class Duration, class... Cases>
std::size_t select_until(const std::chrono::time_point<Clock, Duration> &t,
			 Cases &&...cases)
{
	return detail::select(
		[&](uthread_case *c, std::size_t n, std::size_t *chosen) {
			return detail::until(t, [&](const timespec *at) {
				return uthread_select(c, n, at, chosen);
			});
		},
		cases...);
}
template <class Rep, class Period, class... Cases>
std::size_t select_for(const std::chrono::duration<Rep, Period> &d,
		       Cases &&...cases)
{
	const detail::deadline at(d);

	return detail::select(
		[&](uthread_case *c, std::size_t n, std::size_t *chosen) {
			return uthread_select(c, n, at.get(), chosen);
		},
		cases...);
}

} // namespace uthreads

#endif /* UTHREAD_CHANNELS_HPP */
