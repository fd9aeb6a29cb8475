// SPDX-License-Identifier: Apache-2.0
/*
 * test_hpp.cc - uthread.hpp: that its types do what the standard's do, with the
 * standard's own locks and tokens, and what is beyond: channels, select, scopes.
 */
#include <condition_variable>
#include <shared_mutex>
#include <stdexcept>
#include <string>
#include <thread>
#include <unordered_set>
#include <vector>

#include "uthread.hpp"

/* After what has members of these names. */
#include "util.h"
#undef load
#undef store
#undef add

template <class T> static T load(const T *p)
{
	return __atomic_load_n(p, __ATOMIC_SEQ_CST);
}

template <class T> static void store(T *p, T v)
{
	__atomic_store_n(p, v, __ATOMIC_SEQ_CST);
}

template <class T> static T add(T *p, T v)
{
	return __atomic_add_fetch(p, v, __ATOMIC_SEQ_CST);
}

using namespace std::chrono_literals;
namespace ut = uthreads;

static_assert(!std::is_copy_constructible_v<ut::jthread>);
static_assert(std::is_nothrow_move_constructible_v<ut::jthread>);
static_assert(!std::is_copy_constructible_v<ut::mutex>);

/* ---- locks ---- */

template <class Mutex> static void counts_under()
{
	Mutex m;
	int n = 0;
	std::vector<ut::jthread> t;

	for (int i = 0; i < 8; i++)
		t.emplace_back([&] {
			for (int k = 0; k < 500; k++) {
				std::lock_guard<Mutex> lock(m);
				const int seen = n;

				if (k % 50 == 0)
					ut::this_thread::yield();
				n = seen + 1;
			}
		});
	for (auto &one : t)
		one.join();
	CHECK_EQ(n, 4000);
}

TEST(hpp_mutexes)
{
	start_workers(3);
	counts_under<ut::mutex>();
	counts_under<ut::recursive_mutex>();
	counts_under<ut::timed_mutex>();
	counts_under<ut::shared_mutex>();
}

TEST(hpp_timed_locks)
{
	ut::timed_mutex m;
	ut::shared_mutex s;

	start_workers(2);
	CHECK(m.try_lock());
	CHECK(s.try_lock_shared());
	ut::jthread([&] {
		const auto begin = std::chrono::steady_clock::now();

		CHECK(!m.try_lock());
		CHECK(!m.try_lock_for(5ms));
		CHECK(!m.try_lock_until(std::chrono::system_clock::now() +
					5ms));
		CHECK(!s.try_lock());
		CHECK(!s.try_lock_for(5ms));
		CHECK(s.try_lock_shared_for(std::chrono::hours::max()));
		s.unlock_shared();
		CHECK(std::chrono::steady_clock::now() - begin >= 15ms);
		CHECK(!m.try_lock_for(-1h));
	}).join();
	m.unlock();
	s.unlock_shared();
	CHECK(m.try_lock_for(std::chrono::hours::max()));
	m.unlock();
	CHECK(s.try_lock_until(std::chrono::system_clock::time_point::max()));
	s.unlock();
}

TEST(hpp_standard_locks)
{
	ut::mutex a, b;
	ut::recursive_mutex r;
	ut::shared_mutex s;
	int n = 0;

	start_workers(2);
	auto both = [&](ut::mutex &x, ut::mutex &y) {
		for (int i = 0; i < 500; i++) {
			std::scoped_lock lock(x, y, r);
			std::lock_guard again(r);
			std::unique_lock w(s);

			n++;
		}
	};
	ut::jthread t(both, std::ref(a), std::ref(b));
	ut::jthread u(both, std::ref(b), std::ref(a));
	ut::jthread v([&] {
		for (int i = 0; i < 500; i++) {
			std::shared_lock lock(s);

			CHECK(n <= 1000);
		}
	});
	t.join();
	u.join();
	v.join();
	CHECK_EQ(n, 1000);
}

template <class Condition> static void hands_over()
{
	Condition c;
	ut::mutex m;
	int turn = 0;

	auto play = [&](int me) {
		for (int i = 0; i < 200; i++) {
			std::unique_lock<ut::mutex> lock(m);

			c.wait(lock, [&] { return turn % 2 == me; });
			turn++;
			c.notify_all();
		}
	};
	ut::jthread t(play, 0), u(play, 1);
	t.join();
	u.join();
	CHECK_EQ(turn, 400);
}

TEST(hpp_conditions)
{
	ut::condition_variable c;
	ut::condition_variable_any any;
	ut::mutex m;
	ut::shared_mutex s;
	std::unique_lock<ut::mutex> lock(m);
	std::shared_lock<ut::shared_mutex> shared(s);

	start_workers(2);
	hands_over<ut::condition_variable>();
	hands_over<ut::condition_variable_any>();
	hands_over<std::condition_variable_any>();
	CHECK(c.wait_for(lock, 2ms) == ut::cv_status::timeout);
	CHECK(!c.wait_for(lock, 2ms, [] { return false; }));
	CHECK(!c.wait_until(lock, std::chrono::system_clock::now() + 2ms,
			    [] { return false; }));
	CHECK(!any.wait_for(shared, 2ms, [] { return false; }));
	CHECK(shared.owns_lock());
	CHECK(any.wait_for(shared, 2ms, [] { return true; }));
}

/* ---- threads ---- */

TEST(hpp_jthread)
{
	std::unordered_set<ut::jthread::id> ids;
	std::unique_ptr<int> p = std::make_unique<int>(7);
	std::string text = "abc";
	int got = 0;

	start_workers(2);
	ut::jthread t(
		[&](std::unique_ptr<int> q, std::string &s) {
			got = *q;
			s += "d";
		},
		std::move(p), std::ref(text));

	CHECK(t.joinable());
	ids.insert(t.get_id());
	CHECK(ids.count(t.get_id()));
	t.join();
	CHECK(!t.joinable());
	CHECK_EQ(got, 7);
	CHECK(text == "abcd");
	CHECK(t.get_id() == ut::jthread::id());
	try {
		t.join();
		CHECK(!"joined twice");
	} catch (const std::system_error &e) {
		CHECK(e.code() == std::errc::invalid_argument);
	}
	t = ut::jthread(ut::attributes().name("named").stack_size(1 << 20), [&] {
		char name[UTHREAD_NAME_MAX];
		void *low;
		size_t bytes;

		CHECK_EQ(uthread_getname(uthread_self(), name, sizeof(name)),
			 0);
		CHECK(!strcmp(name, "named"));
		CHECK_EQ(uthread_getstack(uthread_self(), &low, &bytes), 0);
		CHECK(bytes >= 1 << 20);
	});
	CHECK(ut::jthread::hardware_concurrency() == 2);
	ut::jthread u = std::move(t);
	CHECK(!t.joinable());
	u.join();
	store(&got, 0);
	ut::jthread([&] { store(&got, 1); }).detach();
	while (!load(&got))
		ut::this_thread::sleep_for(100us);
}

TEST(hpp_exceptions_are_carried_to_join)
{
	start_workers(2);
	for (int i = 0; i < 20; i++) {
		ut::jthread t([i] {
			if (i % 2)
				ut::this_thread::sleep_for(100us);
			throw std::runtime_error("number " + std::to_string(i));
		});

		try {
			t.join();
			CHECK(!"nothing was thrown");
		} catch (const std::runtime_error &e) {
			CHECK(e.what() == "number " + std::to_string(i));
		}
		CHECK(!t.joinable());
	}
	auto good = ut::async([](int a, int b) { return a + b; }, 3, 4);
	auto moved = ut::async([] { return std::make_unique<int>(9); });
	auto bad = ut::async([]() -> int { throw std::logic_error("no"); });
	auto nothing = ut::async([] {});
	auto dropped = ut::async([] { throw 1; });

	CHECK_EQ(good.get(), 7);
	CHECK(!good.valid());
	CHECK_EQ(*moved.get(), 9);
	nothing.get();
	try {
		bad.get();
		CHECK(!"nothing was thrown");
	} catch (const std::logic_error &) {
	}
}

TEST_DIES(hpp_exception_that_nobody_joins, SIGABRT, "")
{
	start_workers(2);
	ut::jthread t([] { throw 1; });
}

/* ---- stopping ---- */

TEST(hpp_stop_tokens)
{
	int stopped = 0, called = 0;

	start_workers(2);
	{
		ut::jthread t(
			[&](ut::stop_token stop, int step) {
				while (!stop.stop_requested())
					ut::this_thread::yield();
				stopped += step;
			},
			5);
	} /* asks it, and joins */
	CHECK_EQ(stopped, 5);
	ut::jthread t([&](ut::stop_token stop) {
		ut::mutex m;
		ut::condition_variable_any c;
		std::unique_lock<ut::mutex> lock(m);

		/* Nobody ever notifies. */
		CHECK(!c.wait(lock, stop, [] { return false; }));
		stopped++;
	});
	auto count = [&] { called++; };
	{
		ut::stop_callback<decltype(count)> one(t.get_stop_token(),
						       count);
		ut::stop_callback<decltype(count)> two(t.get_stop_token(),
						       count);

		{
			ut::stop_callback<decltype(count)> gone(
				t.get_stop_token(), count);
		}
		CHECK(t.get_stop_token().stop_possible());
		CHECK(t.request_stop());
		CHECK(!t.request_stop());
	}
	CHECK_EQ(called, 2);
	ut::stop_callback<decltype(count)> late(t.get_stop_token(), count);
	CHECK_EQ(called, 3);
	t.join();
	CHECK_EQ(stopped, 6);
	CHECK(!ut::jthread().get_stop_token().stop_possible());
}

/* Else who waits for its end, as its destructor, waited for ever. */
TEST_DIES(hpp_stop_callback_that_throws, SIGABRT, "")
{
	ut::stop_source source;
	auto throws = [] { throw 1; };
	ut::stop_callback<decltype(throws)> call(source.get_token(), throws);

	try {
		source.request_stop();
	} catch (...) {
		_exit(0);
	}
}

/* Callbacks that come and go while a stop is requested. */
TEST(hpp_stop_callbacks_race)
{
	start_workers(4);
	for (int r = 0; r < SCALE(300); r++) {
		ut::stop_source source;
		std::vector<ut::jthread> t;

		for (int i = 0; i < 6; i++)
			t.emplace_back([&source] {
				for (int k = 0; k < 10; k++) {
					int here = 1;
					auto call = [&here] {
						CHECK_EQ(here, 1);
						ut::this_thread::yield();
						CHECK_EQ(here, 1);
					};
					{
						ut::stop_callback<decltype(call)>
							c(source.get_token(),
							  call);
						ut::this_thread::yield();
					}
					here = 2; /* it runs no more */
				}
			});
		source.request_stop();
	}
}

/* ---- cancellation ---- */

static int unwound;

struct notes_end {
	~notes_end()
	{
		add(&unwound, 1);
	}
};

TEST(hpp_cancel_unwinds)
{
	start_workers(2);
	ut::channel<std::string> never;
	ut::jthread t([&] {
		notes_end n;

		never.recv();
		CHECK(!"came back");
	});
	auto u = ut::async([&]() -> int {
		notes_end n;

		ut::select(
			ut::on_recv(never, [](std::optional<std::string>) {}));
		CHECK(!"came back");
		return 1;
	});
	ut::jthread v([&] {
		notes_end n;

		never.recv();
	});
	ut::jthread w([&] {
		notes_end n;
		ut::jthread inner([] { ut::this_thread::sleep_for(2ms); });

		never.recv(); /* the destructor of `inner` joins all the same */
	});
	t.cancel();
	t.join();
	u.cancel();
	try {
		u.get();
		CHECK(!"it has no value");
	} catch (const std::system_error &e) {
		CHECK(e.code() == std::errc::operation_canceled);
	}
	v.cancel();
	w.cancel();
	v.join();
	w.join();
	CHECK_EQ(load(&unwound), 4);
}

/* What it did not send is its own, when it ends. */
struct notes_value {
	~notes_value()
	{
		store(&unwound, value ? *value : -1);
	}
	std::unique_ptr<int> value;
};

TEST(hpp_cancelled_send_keeps_its_value)
{
	start_workers(2);
	ut::channel<std::unique_ptr<int>> full;
	const uint64_t before = parks();
	ut::jthread t([&] {
		notes_value n{ std::make_unique<int>(7) };

		full.send_for(n.value, 1h);
		CHECK(!"came back");
	});

	until_parked(before, 1);
	t.cancel();
	t.join();
	CHECK_EQ(load(&unwound), 7);
	CHECK_EQ(full.size(), 0);
}

/* ---- channels ---- */

static int alive;

/* Points into itself, as std::string may, and is counted. */
struct counted {
	explicit counted(int v) : self(this), value(v)
	{
		add(&alive, 1);
	}
	counted(counted &&o) noexcept : self(this), value(o.value)
	{
		CHECK(o.self == &o);
		add(&alive, 1);
	}
	counted &operator=(counted &&o) noexcept
	{
		CHECK(o.self == &o);
		value = o.value;
		return *this;
	}
	~counted()
	{
		CHECK(self == this);
		add(&alive, -1);
	}

	counted *self;
	int value;
};

static_assert(!std::is_copy_constructible_v<counted>);

struct large {
	char bytes[100000];
};

TEST(hpp_channel_of_anything)
{
	start_workers(2);
	{
		ut::channel<counted> c(3);
		std::optional<counted> x;
		counted v(4);

		CHECK(c.send(counted(1)));
		CHECK(c.send(counted(2)));
		CHECK(c.send(counted(3)));
		CHECK_EQ(c.size(), 3);
		CHECK(c.try_send(v) == ut::chan_status::would_wait);
		CHECK_EQ(v.value, 4); /* still ours */
		CHECK(c.send_for(v, 2ms) == ut::chan_status::timeout);
		CHECK_EQ(v.value, 4);
		CHECK_EQ(c.recv()->value, 1);
		CHECK(c.close());
		CHECK(!c.close());
		CHECK(!c.send(counted(5)));
		CHECK(c.try_send(v) == ut::chan_status::closed);
		CHECK(c.try_recv(x) == ut::chan_status::ok);
		CHECK_EQ(x->value, 2);
	} /* with one in it */
	CHECK_EQ(load(&alive), 0);
	{
		ut::channel<int> c;
		std::optional<int> x = 1;

		CHECK(c.try_recv(x) == ut::chan_status::would_wait);
		CHECK(!x);
		CHECK(c.recv_for(x, 2ms) == ut::chan_status::timeout);
		CHECK(c.recv_until(x, std::chrono::system_clock::now() + 2ms) ==
		      ut::chan_status::timeout);
		c.close();
		CHECK(c.try_recv(x) == ut::chan_status::closed);
		CHECK(!c.recv());
	}
	{
		ut::channel<large> c(1);
		auto v = std::make_unique<large>();

		v->bytes[99999] = 7;
		CHECK(c.send(*v));
		CHECK_EQ(c.recv()->bytes[99999], 7);
	}
	{
		ut::channel<std::unique_ptr<int>> c;
		ut::jthread t([&] {
			for (int i = 0; i < 100; i++)
				c.send(std::make_unique<int>(i));
			c.close();
		});
		int sum = 0;

		for (auto &p : c)
			sum += *p;
		CHECK_EQ(sum, 4950);
	}
}

TEST(hpp_select)
{
	int a_sum = 0, sent = 0, closed = 0;

	start_workers(2);
	ut::channel<counted> a;
	ut::channel<std::string> b(1);
	ut::jthread t([&] {
		for (int i = 1; i <= 100; i++)
			a.send(counted(i));
		a.close();
	});
	ut::jthread u([&] {
		for (auto &s : b)
			CHECK(s == "text");
	});

	while (!closed)
		ut::select(ut::on_recv(a,
				       [&](std::optional<counted> v) {
					       if (v)
						       a_sum += v->value;
					       else
						       closed = 1;
				       }),
			   ut::on_send(b, "text", [&](bool ok) {
				   CHECK(ok);
				   sent++;
			   }));
	CHECK_EQ(a_sum, 5050);
	CHECK(sent > 0);
	b.close();
	t.join();
	u.join();
	{
		ut::channel<std::unique_ptr<int>> c;
		auto one =
			ut::on_send(c, std::make_unique<int>(3), [](bool) {});

		CHECK(ut::try_select(one) == ut::none);
		CHECK_EQ(**one.value(), 3);
		CHECK(ut::select_for(2ms, one) == ut::none);
		CHECK(ut::select_until(std::chrono::system_clock::now() + 2ms,
				       one) == ut::none);
		ut::jthread r([&] { CHECK_EQ(**c.recv(), 3); });

		CHECK_EQ(ut::select(one), 0);
		CHECK(!one.value());
	}
	{
		int p[2], seen = 0;

		CHECK(!pipe(p));
		CHECK_EQ(write(p[1], "x", 1), 1);
		CHECK_EQ(
			ut::select(ut::on_fd(p[0], POLLIN,
					     [&](short what) { seen = what; })),
			0);
		CHECK_EQ(seen, POLLIN);
		CHECK(!close(p[0]));
		CHECK(!close(p[1]));
	}
	CHECK_EQ(load(&alive), 0);
}

/* ---- scopes ---- */

TEST(hpp_scopes)
{
	int n = 0;

	start_workers(3);
	{
		ut::scope s;

		for (int i = 0; i < 20; i++)
			CHECK(s.spawn([&n](int k) { add(&n, k); }, 2));
		CHECK(s.join());
	}
	CHECK_EQ(n, 40);
	{
		ut::channel<int> never;
		ut::scope s;

		for (int i = 0; i < 10; i++)
			s.spawn([&] {
				notes_end x;

				never.recv();
			});
		ut::this_thread::sleep_for(1ms);
		s.spawn([] { throw std::out_of_range("first"); });
		try {
			s.join();
			CHECK(!"nothing was thrown");
		} catch (const std::out_of_range &) {
		}
		CHECK(s.cancelled());
	}
	CHECK(load(&unwound) <= 10);
	store(&unwound, 0);
	try {
		ut::channel<int> never;
		ut::scope s;
		ut::scope inner(&s);

		for (int i = 0; i < 10; i++)
			(i % 2 ? s : inner).spawn([&] {
				notes_end x;

				never.recv();
			});
		while (load(&n) < 41)
			s.spawn([&] { store(&n, 41); });
		throw 5;
	} catch (int) {
	}
	{
		ut::scope s(nullptr, UTHREAD_SCOPE_COOPERATIVE);

		s.spawn([&s] {
			while (!s.cancelled())
				ut::this_thread::yield();
		});
		s.cancel();
		CHECK(!s.spawn([] {}));
		CHECK(!s.join());
	}
	CHECK_EQ(stats().live, 0);
	{
		ut::wait_group g(2);
		ut::jthread t([&] { g.done(); });

		CHECK(!g.wait_for(2ms));
		g.add();
		g.done();
		g.done();
		g.wait();
	}
}

/* ---- plain threads take part ---- */

TEST(hpp_plain_threads)
{
	start_workers(1);
	ut::channel<std::string> there, back;
	std::thread t([&] {
		for (auto &s : there)
			back.send(s + "!");
		back.close();
	});

	for (int i = 0; i < 200; i++) {
		std::string got;

		CHECK(there.send(std::to_string(i)));
		ut::select(ut::on_recv(back, [&](std::optional<std::string> s) {
			got = *s;
		}));
		CHECK(got == std::to_string(i) + "!");
	}
	there.close();
	t.join();
	CHECK(!back.recv());
}

TEST_MAIN()
