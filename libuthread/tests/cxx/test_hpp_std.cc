// SPDX-License-Identifier: Apache-2.0
/*
 * test_hpp_std.cc - uthread.hpp where a program that used the standard's types is at
 * the edge of what these allow: results that are references, times that no clock has
 * room for, deadlines beside stop tokens, values that can hardly be moved.
 */
#include <iterator>
#include <memory>
#include <stdexcept>
#include <string>
#include <vector>
#if __cplusplus >= 202002L
#include <ranges>
#endif

#include "uthread.hpp"

/* After what has members of these names. */
#include "util.h"
#undef load
#undef store
#undef add

using namespace std::chrono_literals;
namespace ut = uthreads;

/* ---- tasks ---- */

TEST(hpp_task_of_a_reference)
{
	int x = 3;
	const int y = 4;

	start_workers(2);
	auto t = ut::async([&]() -> int & { return x; });
	auto u = ut::async([&]() -> const int & { return y; });
	auto bad = ut::async([&]() -> int & { throw 5; });

	CHECK(&t.get() == &x);
	CHECK(&u.get() == &y);
	try {
		bad.get();
		CHECK(!"nothing was thrown");
	} catch (int five) {
		CHECK_EQ(five, 5);
	}
}

TEST(hpp_task_of_nothing_that_is_cancelled)
{
	ut::channel<int> never;

	start_workers(2);
	auto t = ut::async([&] { never.recv(); });
	auto u = ut::async([] { uthread_exit(nullptr); });

	t.cancel();
	for (auto *end : { &t, &u }) {
		try {
			end->get();
			CHECK(!"it has not come to its end");
		} catch (const std::system_error &e) {
			CHECK(e.code() == std::errc::operation_canceled);
		}
		CHECK(!end->valid());
	}
}

TEST(hpp_task_that_is_moved_to_itself)
{
	start_workers(2);
	auto t = ut::async([] { return std::string("here"); });
	auto u = ut::async([] { return std::string("there"); });
	auto &same = t;

	t = std::move(same);
	CHECK(t.valid());
	u = std::move(t);
	CHECK(!t.valid());
	CHECK(u.get() == "here");
}

TEST(hpp_scope_that_a_child_wants_to_join)
{
	ut::channel<int> failed;
	bool refused = false;

	start_workers(2);
	ut::scope s(nullptr, UTHREAD_SCOPE_KEEP_GOING);

	/* It goes with the function, when what that has thrown is there to be thrown. */
	std::shared_ptr<void> last(nullptr, [&](void *) { failed.close(); });
	s.spawn([last = std::move(last)] {
		throw std::runtime_error("the owner's");
	});
	s.spawn([&] {
		failed.recv();
		try {
			s.join();
		} catch (const std::system_error &e) {
			refused = e.code() ==
				  std::errc::resource_deadlock_would_occur;
		}
	});
	try {
		s.join();
		CHECK(!"nothing was thrown");
	} catch (const std::runtime_error &) {
	}
	CHECK(refused);
}

TEST(hpp_task_that_is_waited_for)
{
	ut::channel<int> go;

	start_workers(2);
	auto t = ut::async([&] { return *go.recv() + 1; });
	CHECK(t.wait_for(0s) == ut::future_status::timeout);
	CHECK(t.wait_for(2ms) == ut::future_status::timeout);
	CHECK(t.wait_until(std::chrono::system_clock::now() + 2ms) ==
	      ut::future_status::timeout);
	go.send(6);
	t.wait();
	CHECK(t.wait_for(0s) == ut::future_status::ready);
	CHECK(t.wait_until(std::chrono::steady_clock::time_point::max()) ==
	      ut::future_status::ready);
	t.cancel(); /* it has ended */
	auto moved = std::move(t);
	CHECK_EQ(moved.get(), 7);
	try {
		moved.wait();
		CHECK(!"there is nothing to wait for");
	} catch (const std::system_error &e) {
		CHECK(e.code() == std::errc::invalid_argument);
	}
}

/* ---- time ---- */

/* Nothing waits for a moment before all others, of whatever clock. */
TEST(hpp_times_that_do_not_fit)
{
	using std::chrono::steady_clock;
	using std::chrono::system_clock;
	ut::mutex m, other;
	ut::shared_mutex s;
	ut::channel<int> c;
	ut::condition_variable changed;
	std::optional<int> v;
	int one = 1;

	start_workers(2);
	m.lock();
	s.lock();
	ut::jthread([&] {
		const auto first = system_clock::time_point::min();
		std::unique_lock<ut::mutex> lock(other);

		CHECK(!m.try_lock_until(first));
		CHECK(!m.try_lock_until(steady_clock::time_point::min()));
		CHECK(!m.try_lock_for(std::chrono::nanoseconds::min()));
		CHECK(!m.try_lock_for(std::chrono::hours::min()));
		CHECK(!s.try_lock_until(first));
		CHECK(!s.try_lock_shared_until(first));
		CHECK(c.recv_until(v, first) == ut::chan_status::timeout);
		CHECK(c.send_until(one, first) == ut::chan_status::timeout);
		CHECK(c.recv_for(v, std::chrono::hours::min()) ==
		      ut::chan_status::timeout);
		CHECK(ut::select_until(first, ut::on_recv(c, [](auto) {})) ==
		      ut::none);
		CHECK(changed.wait_until(lock, first) ==
		      ut::cv_status::timeout);
		ut::this_thread::sleep_until(first);
		ut::this_thread::sleep_for(std::chrono::hours::min());
	}).join();
	CHECK(ut::select_for(1ms) == ut::none);
	m.unlock();
	s.unlock();
}

/* ---- stopping ---- */

TEST(hpp_stop_tokens_beside_deadlines)
{
	ut::condition_variable_any c;
	ut::mutex m;
	ut::stop_source source;
	bool holds = false;
	const auto never = [] { return false; };
	std::unique_lock<ut::mutex> lock(m);

	start_workers(2);
	CHECK(!c.wait_for(lock, source.get_token(), 2ms, never));
	CHECK(lock.owns_lock());
	CHECK(!c.wait_until(lock, source.get_token(),
			    std::chrono::system_clock::now() + 2ms, never));
	CHECK(c.wait_for(lock, source.get_token(), -1h, [] { return true; }));
	ut::jthread notifies([&] {
		std::lock_guard<ut::mutex> guard(m);

		holds = true;
		c.notify_all();
	});
	CHECK(c.wait_for(lock, source.get_token(), std::chrono::hours::max(),
			 [&] { return holds; }));
	ut::jthread stops([&] {
		ut::this_thread::sleep_for(1ms);
		source.request_stop();
	});
	/* Nobody ever notifies, and the time does not come. */
	CHECK(!c.wait_until(lock, source.get_token(),
			    std::chrono::steady_clock::time_point::max(),
			    never));
	CHECK(source.stop_requested());
	CHECK(lock.owns_lock());
}

/* ---- channels ---- */

/* Its bytes may be copied, but not by its own functions. */
struct moved_only {
	explicit moved_only(int k) : n(k)
	{
	}
	moved_only(const moved_only &) = delete;
	moved_only(moved_only &&) = default;
	moved_only &operator=(moved_only &&) = delete;
	int n;
};
static_assert(std::is_trivially_copyable_v<moved_only>);

/* Nothing can be assigned to it. */
struct constant {
	explicit constant(const char *t) : text(t)
	{
	}
	constant(constant &&o) : text(o.text + "'")
	{
	}
	const std::string text;
};

TEST(hpp_channel_of_what_cannot_be_assigned)
{
	ut::channel<moved_only> a(1);
	ut::channel<constant> b(1);
	constant first("x"), second("y");

	start_workers(2);
	CHECK(a.send(moved_only(4)));
	CHECK_EQ(a.recv()->n, 4);
	CHECK(b.try_send(first) == ut::chan_status::ok);
	CHECK(b.try_send(second) == ut::chan_status::would_wait);
	CHECK(second.text == "y''"); /* there and back */
	CHECK(b.recv()->text == "x''");
}

/* ---- what a function has with it ---- */

namespace {

/* Closes the channel when it goes, and says where that was. */
class closes {
public:
	closes(ut::channel<int> &c, uthread_t &where) : c_(&c), where_(&where)
	{
	}
	closes(closes &&o) noexcept
		: c_(std::exchange(o.c_, nullptr)), where_(o.where_)
	{
	}
	~closes()
	{
		if (!c_)
			return;
		*where_ = uthread_self();
		c_->close();
	}

private:
	ut::channel<int> *c_;
	uthread_t *where_;
};

template <class End> void goes_before_join(End end)
{
	ut::channel<int> gone;
	uthread_t where = nullptr;
	ut::jthread t(end, closes(gone, where));

	CHECK(!gone.recv()); /* and nobody has joined */
	CHECK(where == t.native_handle());
	try {
		t.join();
	} catch (int) {
	}
}

} // namespace

TEST(hpp_jthread_gives_its_arguments_back_as_it_ends)
{
	start_workers(2);
	goes_before_join([](const closes &) {});
	goes_before_join([](const closes &) { throw 1; });
	goes_before_join([](const closes &) { uthread_exit(nullptr); });
}

/* ---- iterators ---- */

TEST(hpp_channel_is_a_range)
{
	ut::channel<std::string> c(4);
	ut::channel<std::unique_ptr<int>> p(4);

	start_workers(1);
	for (const char *word : { "a", "bc", "d" })
		c.send(word);
	c.close();
	auto at = c.begin();
	CHECK_EQ(at->size(), 1);
	CHECK(*at++ == "a");
	const auto bc = at;
	CHECK(*bc == "bc" && bc->size() == 2);
	CHECK((std::vector<std::string>(at, c.end()) ==
	       std::vector<std::string>{ "bc", "d" }));
	p.send(std::make_unique<int>(5));
	p.close();
	auto first = p.begin();
	const std::unique_ptr<int> five = std::move(*first++);
	CHECK_EQ(*five, 5);
	CHECK(first == p.end());
#if __cplusplus >= 202002L
	static_assert(std::ranges::input_range<ut::channel<std::string>>);
#endif
}

/* ---- stop tokens as values ---- */

TEST(hpp_stop_tokens_are_compared_and_exchanged)
{
	/* static: of others gcc 12 believes, with -fsanitize, that libstdc++ reads them early */
	static ut::stop_source a, b(a), c;
	ut::stop_token x = a.get_token(), y = c.get_token();

	CHECK(a == b && a != c && x != y && x == b.get_token());
	swap(a, c);
	x.swap(y);
	CHECK(b == c && b != a && x == a.get_token());
	a.swap(c);
	swap(x, y);
	CHECK(a == b && y != x && x == a.get_token());
	c.request_stop();
	CHECK(y.stop_requested() && !x.stop_requested());
	static_assert(
		std::is_same_v<ut::stop_callback<void (*)()>::callback_type,
			       void (*)()>);
}

TEST_MAIN()
