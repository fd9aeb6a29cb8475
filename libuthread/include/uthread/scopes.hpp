/* SPDX-License-Identifier: Apache-2.0 */
/* scopes.hpp - wait groups and task scopes; part of uthread.hpp. */
#ifndef UTHREAD_SCOPES_HPP
#define UTHREAD_SCOPES_HPP

#include "threads.hpp"

namespace uthreads {

/* ---- wait groups and scopes ---- */

class wait_group {
public:
	explicit wait_group(unsigned count = 0)
	{
		detail::check(uthread_waitgroup_init(&g_, count), "wait_group");
	}
	~wait_group()
	{
		if (uthread_waitgroup_destroy(&g_))
			std::terminate();
	}
	wait_group(const wait_group &) = delete;
	wait_group &operator=(const wait_group &) = delete;

	void add(int n = 1)
	{
		detail::check(uthread_waitgroup_add(&g_, n), "wait_group::add");
	}
	void done()
	{
		detail::check(uthread_waitgroup_done(&g_), "wait_group::done");
	}
	void wait()
	{
		uthread_waitgroup_wait(&g_);
	}
	/* False: not within that time. */
	template <class Rep, class Period>
	bool wait_for(const std::chrono::duration<Rep, Period> &d)
	{
		return !uthread_waitgroup_wait_timed(&g_,
						     detail::deadline(d).get());
	}

private:
	uthread_waitgroup_t g_;
};

/*
 * Children that have ended when it ends (uthread_scope_init()). join() waits for
 * them and throws the first exception that one of them ended with, which cancels
 * the others; a scope that ends without it, by an exception too, cancels them.
 */
class scope {
public:
	/* `parent`: it is cancelled with that one. UTHREAD_SCOPE_COOPERATIVE:
	 * children look whether they are; else they end at their next wait. */
	explicit scope(scope *parent = nullptr, unsigned flags = 0)
	{
		detail::check(uthread_scope_init(&s_,
						 parent ? &parent->s_ : nullptr,
						 flags),
			      "scope");
	}
	~scope()
	{
		const detail::no_cancel guard;

		if (left_)
			return;
		uthread_scope_cancel(&s_);
		uthread_scope_leave(&s_);
	}
	scope(const scope &) = delete;
	scope &operator=(const scope &) = delete;

	/* f(args...) as a child. False: the scope is cancelled. */
	template <class F, class... Args> bool spawn(F &&f, Args &&...args)
	{
		auto call = [this, f = std::decay_t<F>(std::forward<F>(f)),
			     values = std::tuple<std::decay_t<Args>...>(
				     std::forward<Args>(args)...)]() mutable {
			return run([&] {
				std::apply(std::move(f), std::move(values));
			});
		};
		using Call = decltype(call);
		auto arg = std::make_unique<Call>(std::move(call));
		const int err = uthread_scope_create(
			&s_, nullptr,
			[](void *p) {
				const std::unique_ptr<Call> c(
					static_cast<Call *>(p));
				return (*c)();
			},
			arg.get());

		if (err == ECANCELED)
			return false;
		detail::check(err, "scope::spawn");
		arg.release();
		return true;
	}
	/* False: it was cancelled. */
	bool join()
	{
		bool left;
		int err;

		left_ = true; /* whatever happens there */
		err = uthread_scope_leave(&s_);
		left = err != EDEADLK && err != EBUSY;
		left_ = left;
		/* Until then children may be at it, and it is the owner's. */
		if (left && error_)
			std::rethrow_exception(std::exchange(error_, nullptr));
		if (err && err != ECANCELED)
			detail::check(err, "scope::join");
		return !err;
	}
	void cancel()
	{
		uthread_scope_cancel(&s_);
	}
	bool cancelled() const noexcept
	{
		return uthread_scope_cancelled(&s_);
	}

private:
	template <class Call> int run(Call call)
	{
		try {
			call();
		} catch (...) {
			std::exception_ptr e = detail::caught();
			const std::lock_guard<mutex> lock(m_);

			if (!error_)
				error_ = std::move(e);
			return EIO; /* join() throws */
		}
		return 0;
	}

	uthread_scope_t s_;
	mutex m_;
	std::exception_ptr error_;
	std::atomic<bool> left_{ false }; /* a child may call join() */
};

} // namespace uthreads

#endif /* UTHREAD_SCOPES_HPP */
