/* SPDX-License-Identifier: Apache-2.0 */
/*
 * task.hpp - stackless coroutines of C++20, and the least that its programs put around
 * them: a task that somebody awaits, a loop with a queue, first come, first served, and
 * deadlines. One kernel thread.
 *
 * A task that is awaited runs at once, by a transfer from who awaits it; one that is
 * spawned waits for its turn, as a thread would. Who has ended goes on in who awaits
 * him, without the queue. Frames are the compiler's, from operator new.
 */
#ifndef PEERS_CPP20_TASK_HPP
#define PEERS_CPP20_TASK_HPP

#include "../cpp/probe.hpp"

#include <coroutine>
#include <deque>
#include <exception>
#include <queue>
#include <utility>

namespace co {

using handle = std::coroutine_handle<>;

class loop {
public:
	void put(handle who)
	{
		ready_.push_back(who);
	}

	void put_at(std::int64_t moment, handle who)
	{
		timers_.push({ moment, who });
	}

	void until_done(handle root)
	{
		for (unsigned turn = 0; !root.done(); turn++) {
			if (!timers_.empty() &&
			    (ready_.empty() || turn % TURNS == 0))
				look_at_timers();
			if (ready_.empty())
				probe::fail("loop", "nobody is left to run");
			const handle next = ready_.front();
			ready_.pop_front();
			next.resume();
		}
	}

private:
	/* Turns between two looks at the clock while somebody is ready. */
	static constexpr unsigned TURNS = 61;

	struct timer {
		std::int64_t moment;
		handle who;

		bool operator<(const timer &other) const
		{
			return moment > other.moment; /* the earliest on top */
		}
	};

	void look_at_timers()
	{
		std::int64_t now = probe::now();

		if (ready_.empty() && timers_.top().moment > now) {
			const std::int64_t ns = timers_.top().moment - now;
			const timespec t = { ns / 1000000000, ns % 1000000000 };
			nanosleep(&t, nullptr);
			now = probe::now();
		}
		while (!timers_.empty() &&
		       (timers_.top().moment <= now || ready_.empty())) {
			put(timers_.top().who);
			timers_.pop();
		}
	}

	std::deque<handle> ready_;
	std::priority_queue<timer> timers_;
};

inline loop here;

template <typename T> class [[nodiscard]] task {
public:
	struct promise_type {
		handle waiter;
		T value{};

		task get_return_object()
		{
			return task(of::from_promise(*this));
		}
		std::suspend_always initial_suspend() noexcept
		{
			return {};
		}
		auto final_suspend() noexcept
		{
			struct finish {
				bool await_ready() noexcept
				{
					return false;
				}
				handle await_suspend(of ended) noexcept
				{
					const handle next =
						ended.promise().waiter;
					return next ? next :
						      std::noop_coroutine();
				}
				void await_resume() noexcept
				{
				}
			};
			return finish{};
		}
		void return_value(T result)
		{
			value = std::move(result);
		}
		[[noreturn]] void unhandled_exception()
		{
			std::terminate();
		}
	};

	task() = default;
	task(task &&other) noexcept
		: of_(std::exchange(other.of_, nullptr)),
		  spawned_(other.spawned_)
	{
	}
	task &operator=(task &&other) noexcept
	{
		std::swap(of_, other.of_);
		std::swap(spawned_, other.spawned_);
		return *this;
	}
	~task()
	{
		if (of_)
			of_.destroy();
	}

	/* From now on it runs when it is its turn. */
	void spawn()
	{
		spawned_ = true;
		here.put(of_);
	}

	T run()
	{
		spawn();
		here.until_done(of_);
		return std::move(of_.promise().value);
	}

	bool await_ready() const
	{
		return of_.done();
	}
	handle await_suspend(handle waiter)
	{
		of_.promise().waiter = waiter;
		return spawned_ ? std::noop_coroutine() : handle(of_);
	}
	T await_resume()
	{
		return std::move(of_.promise().value);
	}

private:
	using of = std::coroutine_handle<promise_type>;

	explicit task(of which) : of_(which)
	{
	}

	of of_;
	bool spawned_ = false;
};

template <typename T> task<T> spawn(task<T> one)
{
	one.spawn();
	return one;
}

/* co_await yield(): everybody else who is ready comes first. */
struct yield {
	bool await_ready() const
	{
		return false;
	}
	void await_suspend(handle who) const
	{
		here.put(who);
	}
	void await_resume() const
	{
	}
};

struct sleep_until {
	std::int64_t moment;

	bool await_ready() const
	{
		return false;
	}
	void await_suspend(handle who) const
	{
		here.put_at(moment, who);
	}
	void await_resume() const
	{
	}
};

} // namespace co

#endif
