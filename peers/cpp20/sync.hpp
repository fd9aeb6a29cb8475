/* SPDX-License-Identifier: Apache-2.0 */
/*
 * sync.hpp - what coroutines wait for one another by: a mutex that is handed over, a
 * condition variable whose waiters go on as owners of the mutex, and a channel without
 * room. No atomics, for there is one kernel thread; who waits is a node in his own frame.
 */
#ifndef PEERS_CPP20_SYNC_HPP
#define PEERS_CPP20_SYNC_HPP

#include "task.hpp"

namespace co {

template <typename Waiter> class line {
public:
	void push(Waiter *who)
	{
		who->next = nullptr;
		*last_ = who;
		last_ = &who->next;
	}

	/* Or null. */
	Waiter *pop()
	{
		Waiter *who = first_;

		if (!who)
			return nullptr;
		first_ = who->next;
		if (!first_)
			last_ = &first_;
		return who;
	}

	line() = default;
	line(const line &) = delete;
	line &operator=(const line &) = delete;

private:
	Waiter *first_ = nullptr;
	Waiter **last_ = &first_;
};

class mutex {
public:
	struct locking {
		mutex &of;
		locking *next = nullptr;
		handle who{};

		bool await_ready()
		{
			return !std::exchange(of.held_, true);
		}
		void await_suspend(handle waiter)
		{
			who = waiter;
			of.waiting_.push(this);
		}
		void await_resume() const
		{
		}
	};

	locking lock()
	{
		return { *this };
	}

	void unlock()
	{
		if (locking *next = waiting_.pop())
			here.put(next->who);
		else
			held_ = false;
	}

	/* For somebody who is asleep: he runs when it is his. */
	void lock_for(locking *waiter)
	{
		if (std::exchange(held_, true))
			waiting_.push(waiter);
		else
			here.put(waiter->who);
	}

private:
	bool held_ = false;
	line<locking> waiting_;
};

class condition {
public:
	struct waiting {
		condition &of;
		mutex::locking lock;

		bool await_ready() const
		{
			return false;
		}
		void await_suspend(handle waiter)
		{
			lock.who = waiter;
			of.waiting_.push(&lock);
			lock.of.unlock();
		}
		void await_resume() const
		{
		}
	};

	waiting wait(mutex &m)
	{
		return { *this, { m } };
	}

	void signal()
	{
		if (mutex::locking *next = waiting_.pop())
			next->of.lock_for(next);
	}

private:
	line<mutex::locking> waiting_;
};

class channel {
public:
	/* Either side: who comes second hands the value over and goes on. */
	struct side {
		line<side> &own, &other;
		std::int64_t value;
		bool sends;
		side *next = nullptr;
		handle who{};

		bool await_ready()
		{
			side *partner = other.pop();

			if (!partner)
				return false;
			(sends ? partner->value : value) =
				sends ? value : partner->value;
			here.put(partner->who);
			return true;
		}
		void await_suspend(handle waiter)
		{
			who = waiter;
			own.push(this);
		}
		std::int64_t await_resume() const
		{
			return value;
		}
	};

	side send(std::int64_t value)
	{
		return { senders_, receivers_, value, true };
	}
	side receive()
	{
		return { receivers_, senders_, 0, false };
	}

private:
	line<side> senders_, receivers_;
};

} // namespace co

#endif
