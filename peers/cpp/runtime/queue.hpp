/* SPDX-License-Identifier: Apache-2.0 */
/*
 * queue.hpp - the least scheduler, for libraries that have contexts and nothing else:
 * first come, first served, on one kernel thread. Stacks are kept and used again.
 *
 * A switch is the library's, everything else is ours, and as little as can be. So what
 * a row of such a peer says is the least that its switch lets a scheduler cost.
 *
 * `Context` has start(entry, argument) and switch_to(other): from one of ours to the
 * next, which may be main's.
 */
#ifndef PEERS_CPP_QUEUE_HPP
#define PEERS_CPP_QUEUE_HPP

#include "../work.hpp"

namespace rt {

using function = void *(void *);

constexpr bool several = false, foreign_main = false;

template <typename Context> struct task {
	Context context;
	function *fn = nullptr;
	void *argument = nullptr;
	task *next = nullptr; /* in the queue, or in the pool */
	task *joiner = nullptr;
	bool done = false;
};

template <typename Context> class scheduler {
public:
	using one = task<Context>;

	one *create(function *fn, void *argument)
	{
		one *made = pool_;

		if (made) {
			pool_ = made->next;
		} else {
			made = new one;
			made->context.start(entry, made);
		}
		made->fn = fn;
		made->argument = argument;
		made->joiner = nullptr;
		made->done = false;
		put(made);
		return made;
	}

	void join(one *which)
	{
		if (!which->done) {
			which->joiner = running_;
			next();
		}
		which->next = pool_;
		pool_ = which;
	}

	void yield()
	{
		if (!first_)
			return;
		put(running_);
		next();
	}

	static scheduler &here()
	{
		static scheduler only;
		return only;
	}

private:
	static void entry(void *argument)
	{
		auto *own = static_cast<one *>(argument);
		scheduler &all = here();

		for (;;) {
			own->fn(own->argument);
			own->done = true;
			if (own->joiner)
				all.put(own->joiner);
			all.next();
		}
	}

	void put(one *who)
	{
		who->next = nullptr;
		*last_ = who;
		last_ = &who->next;
	}

	void next()
	{
		one *before = running_;

		if (!first_)
			probe::fail("queue", "nobody is left to run");
		running_ = first_;
		first_ = running_->next;
		if (!first_)
			last_ = &first_;
		if (running_ != before)
			before->context.switch_to(running_->context);
	}

	one main_;
	one *running_ = &main_, *first_ = nullptr, *pool_ = nullptr;
	one **last_ = &first_;
};

inline void start_up(const trial &)
{
}

template <typename Body> void inside(Body body)
{
	body();
}

} // namespace rt

/* The rest of `rt`, of a library whose context is this. */
#define RT_OF(context)                                                  \
	namespace rt {                                                  \
	using thread = task<context> *;                                 \
	inline thread create(function *fn, void *argument)              \
	{                                                               \
		return scheduler<context>::here().create(fn, argument); \
	}                                                               \
	inline void join(thread which)                                  \
	{                                                               \
		scheduler<context>::here().join(which);                 \
	}                                                               \
	inline void yield()                                             \
	{                                                               \
		scheduler<context>::here().yield();                     \
	}                                                               \
	}

#endif
