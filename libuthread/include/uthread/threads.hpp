/* SPDX-License-Identifier: Apache-2.0 */
/* threads.hpp - threads, and functions that run in one; part of uthread.hpp. */
#ifndef UTHREAD_THREADS_HPP
#define UTHREAD_THREADS_HPP

#include <exception>
#include <functional>
#include <optional>
#include <tuple>

#include "stop.hpp"

namespace uthreads {

/* ---- threads ---- */

class thread_id {
public:
	thread_id() noexcept = default;
	explicit thread_id(uthread_t t) noexcept : t_(t)
	{
	}
	friend bool operator==(thread_id a, thread_id b) noexcept
	{
		return a.t_ == b.t_;
	}
	friend bool operator!=(thread_id a, thread_id b) noexcept
	{
		return a.t_ != b.t_;
	}
	friend bool operator<(thread_id a, thread_id b) noexcept
	{
		return std::less<uthread_t>()(a.t_, b.t_);
	}
	std::size_t hash() const noexcept
	{
		return std::hash<uthread_t>()(t_);
	}

private:
	uthread_t t_ = nullptr;
};

namespace this_thread {

/* That of nobody in a plain thread. */
inline thread_id get_id() noexcept
{
	return thread_id(uthread_self());
}
inline void yield() noexcept
{
	uthread_yield();
}
template <class Clock, class Duration>
void sleep_until(const std::chrono::time_point<Clock, Duration> &t)
{
	detail::until(t, [](const timespec *at) {
		const timespec never = { 1000000000000, 0 };

		uthread_sleep_until(at ? at : &never);
		return ETIMEDOUT;
	});
}
template <class Rep, class Period>
void sleep_for(const std::chrono::duration<Rep, Period> &d)
{
	const detail::deadline at(d);
	const timespec never = { 1000000000000, 0 };

	if (d > d.zero())
		uthread_sleep_until(at.get() ? at.get() : &never);
}

} // namespace this_thread

/* How a thread is made: attributes().name("x").stack_size(1 << 20). */
class attributes {
public:
	attributes()
	{
		uthread_attr_init(&a_);
	}
	attributes &name(const char *name)
	{
		detail::check(uthread_attr_setname(&a_, name), "name");
		return *this;
	}
	attributes &stack_size(std::size_t bytes)
	{
		detail::check(uthread_attr_setstacksize(&a_, bytes),
			      "stack_size");
		return *this;
	}
	attributes &worker(int worker)
	{
		detail::check(uthread_attr_setworker(&a_, worker), "worker");
		return *this;
	}
	attributes &priority(int priority)
	{
		detail::check(uthread_attr_setpriority(&a_, priority),
			      "priority");
		return *this;
	}
	attributes &tls(uthread_tls mode)
	{
		detail::check(uthread_attr_settls(&a_, mode), "tls");
		return *this;
	}
	const uthread_attr_t *get() const noexcept
	{
		return &a_;
	}

private:
	uthread_attr_t a_;
};

namespace detail {

/* The exception that is being handled; an unwinding uthread goes on. */
inline std::exception_ptr caught()
{
	std::exception_ptr e = std::current_exception();

	if (!e)
		throw;
	return e;
}

/* What a thread and who joins it share. */
struct run_state {
	virtual ~run_state() = default;
	virtual void run() = 0;

	std::exception_ptr error;
	/* Set by who ends with an exception and by who detaches. */
	std::atomic<bool> other{ false };
};

inline void *run_thread(void *arg)
{
	const std::unique_ptr<std::shared_ptr<run_state>> s(
		static_cast<std::shared_ptr<run_state> *>(arg));

	try {
		(*s)->run();
	} catch (...) {
		(*s)->error = caught();
		/* Nobody will ever see it. */
		if ((*s)->other.exchange(true))
			std::terminate();
	}
	return nullptr;
}

inline uthread_t start(const attributes *a, std::shared_ptr<run_state> s)
{
	auto arg = std::make_unique<std::shared_ptr<run_state>>(std::move(s));
	uthread_t t;

	check(uthread_create(&t, a ? a->get() : nullptr, run_thread, arg.get()),
	      "thread");
	arg.release();
	return t;
}

/* What the function has of others goes as it ends, in its thread, whoever joins that
 * and when: as std::jthread does it. */
template <class Call> struct call_state final : run_state {
	explicit call_state(Call &&c) : call(std::move(c))
	{
	}
	void run() override
	{
		const gone when_it_ends{ call };

		(*call)();
	}
	struct gone {
		std::optional<Call> &call;
		~gone()
		{
			call.reset();
		}
	};
	std::optional<Call> call;
};

template <class Call> std::shared_ptr<run_state> state_of(Call &&c)
{
	return std::make_shared<call_state<std::decay_t<Call>>>(std::move(c));
}

} // namespace detail

/*
 * As std::jthread, but an exception that leaves the function is thrown by join();
 * if nobody joins to see it the process ends, as it does with the standard's.
 */
class jthread {
public:
	using id = thread_id;
	using native_handle_type = uthread_t;

	jthread() noexcept : stop_(nostopstate)
	{
	}
	template <class F, class... Args,
		  class = std::enable_if_t<
			  !std::is_same_v<std::decay_t<F>, jthread> &&
			  !std::is_same_v<std::decay_t<F>, attributes>>>
	explicit jthread(F &&f, Args &&...args)
	{
		begin(nullptr, std::forward<F>(f), std::forward<Args>(args)...);
	}
	template <class F, class... Args>
	jthread(const attributes &a, F &&f, Args &&...args)
	{
		begin(&a, std::forward<F>(f), std::forward<Args>(args)...);
	}
	jthread(jthread &&o) noexcept : stop_(nostopstate)
	{
		swap(o);
	}
	jthread &operator=(jthread &&o) noexcept
	{
		jthread(std::move(o)).swap(*this);
		return *this;
	}
	~jthread()
	{
		if (!joinable())
			return;
		stop_.request_stop();
		const detail::no_cancel guard;
		uthread_join(t_, nullptr);
		if (state_->error)
			std::terminate();
	}
	void swap(jthread &o) noexcept
	{
		std::swap(t_, o.t_);
		std::swap(stop_, o.stop_);
		std::swap(state_, o.state_);
	}
	bool joinable() const noexcept
	{
		return t_ != nullptr;
	}
	void join()
	{
		detail::check(joinable() ? uthread_join(t_, nullptr) : EINVAL,
			      "jthread::join");
		t_ = nullptr;
		const auto s = std::move(state_);
		if (s->error)
			std::rethrow_exception(s->error);
	}
	void detach()
	{
		detail::check(joinable() ? uthread_detach(t_) : EINVAL,
			      "jthread::detach");
		t_ = nullptr;
		const auto s = std::move(state_);
		if (s->other.exchange(true))
			std::terminate();
	}
	/* uthread_cancel(): it ends at its next wait. */
	void cancel()
	{
		detail::check(joinable() ? uthread_cancel(t_) : EINVAL,
			      "jthread::cancel");
	}
	id get_id() const noexcept
	{
		return id(t_);
	}
	native_handle_type native_handle() noexcept
	{
		return t_;
	}
	stop_source get_stop_source() noexcept
	{
		return stop_;
	}
	stop_token get_stop_token() const noexcept
	{
		return stop_.get_token();
	}
	bool request_stop() noexcept
	{
		return stop_.request_stop();
	}
	static unsigned hardware_concurrency() noexcept
	{
		const int n = uthread_workers();

		return n > 0 ? static_cast<unsigned>(n) : 0;
	}

private:
	template <class F, class... Args>
	void begin(const attributes *a, F &&f, Args &&...args)
	{
		state_ = detail::state_of([token = stop_.get_token(),
					   f = std::decay_t<F>(
						   std::forward<F>(f)),
					   values = std::tuple<
						   std::decay_t<Args>...>(
						   std::forward<Args>(
							   args)...)]() mutable {
			std::apply(
				[&](auto &&...v) {
					using S = stop_token;
					if constexpr (std::is_invocable_v<
							      std::decay_t<F>, S,
							      std::decay_t<
								      Args>...>)
						std::invoke(std::move(f),
							    std::move(token),
							    std::move(v)...);
					else
						std::invoke(std::move(f),
							    std::move(v)...);
				},
				std::move(values));
		});
		t_ = detail::start(a, state_);
	}

	uthread_t t_ = nullptr;
	stop_source stop_;
	std::shared_ptr<detail::run_state> state_;
};

enum class future_status { ready, timeout, deferred };

/* The result of a function that runs in a uthread. The destructor waits for it,
 * and drops what nobody has taken. */
template <class R> class task {
public:
	task() noexcept = default;
	task(task &&o) noexcept
		: state_(std::move(o.state_)), t_(std::exchange(o.t_, nullptr))
	{
	}
	task &operator=(task &&o) noexcept
	{
		task was(std::move(o)); /* which may be this one */

		std::swap(state_, was.state_);
		std::swap(t_, was.t_);
		return *this;
	}
	~task()
	{
		drop();
	}
	bool valid() const noexcept
	{
		return state_ != nullptr;
	}
	/* Once: the value, or the exception. */
	R get()
	{
		wait();
		const auto s = std::move(state_);
		if (s->error)
			std::rethrow_exception(s->error);
		/* It was cancelled, or called uthread_exit(). */
		if (!s->value)
			detail::check(ECANCELED, "task::get");
		if constexpr (std::is_reference_v<R>)
			return static_cast<R>(**s->value);
		else if constexpr (!std::is_void_v<R>)
			return std::move(*s->value);
	}
	/* Until it has ended; get() takes what it gave. */
	void wait()
	{
		end(t_ ? uthread_join(t_, nullptr) : 0);
	}
	template <class Clock, class Duration>
	future_status
	wait_until(const std::chrono::time_point<Clock, Duration> &t)
	{
		return end(detail::until(t, [this](const timespec *at) {
			return !t_ ? 0 :
			       at  ? uthread_timedjoin(t_, nullptr, at) :
				     uthread_join(t_, nullptr);
		}));
	}
	template <class Rep, class Period>
	future_status wait_for(const std::chrono::duration<Rep, Period> &d)
	{
		return wait_until(detail::after(d));
	}
	void cancel()
	{
		if (t_)
			uthread_cancel(t_);
	}

private:
	/* Of a reference the address, of nothing that it has come. */
	using value_type = std::conditional_t<
		std::is_void_v<R>, char,
		std::conditional_t<std::is_reference_v<R>,
				   std::remove_reference_t<R> *, R>>;

	struct state : detail::run_state {
		std::optional<value_type> value;
	};
	template <class Call> struct running final : state {
		explicit running(Call &&c) : call(std::move(c))
		{
		}
		void run() override
		{
			if constexpr (std::is_void_v<R>) {
				call();
				this->value.emplace();
			} else if constexpr (std::is_reference_v<R>) {
				R r = call();

				this->value.emplace(std::addressof(r));
			} else {
				this->value.emplace(call());
			}
		}
		Call call;
	};
	template <class F, class... Args>
	friend task<std::invoke_result_t<std::decay_t<F>, std::decay_t<Args>...>>
	async(F &&, Args &&...);

	template <class Call> explicit task(Call &&call, int)
	{
		state_ = std::make_shared<running<std::decay_t<Call>>>(
			std::move(call));
		t_ = detail::start(nullptr, state_);
	}
	/* What a join said. */
	future_status end(int err)
	{
		detail::check(!valid()	       ? EINVAL :
			      err == ETIMEDOUT ? 0 :
						 err,
			      "task::wait");
		if (err)
			return future_status::timeout;
		t_ = nullptr;
		return future_status::ready;
	}
	void drop() noexcept
	{
		const detail::no_cancel guard;

		if (t_)
			uthread_join(std::exchange(t_, nullptr), nullptr);
		state_ = nullptr;
	}

	std::shared_ptr<state> state_;
	uthread_t t_ = nullptr;
};

/* f(args...) in a uthread of its own. */
template <class F, class... Args>
task<std::invoke_result_t<std::decay_t<F>, std::decay_t<Args>...>>
async(F &&f, Args &&...args)
{
	using R = std::invoke_result_t<std::decay_t<F>, std::decay_t<Args>...>;

	return task<R>(
		[f = std::decay_t<F>(std::forward<F>(f)),
		 values = std::tuple<std::decay_t<Args>...>(
			 std::forward<Args>(args)...)]() mutable -> R {
			return std::apply(std::move(f), std::move(values));
		},
		0);
}

} // namespace uthreads

template <> struct std::hash<uthreads::thread_id> {
	std::size_t operator()(uthreads::thread_id id) const noexcept
	{
		return id.hash();
	}
};

#endif /* UTHREAD_THREADS_HPP */
