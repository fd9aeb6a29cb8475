// SPDX-License-Identifier: Apache-2.0
/*
 * cpp_threads.cpp THREADS: threads of C++ that hand items over through a queue (mutex,
 * condition_variable), read a table (shared_mutex), answer by futures and throw. For
 * `uthread-run`; exit status 1: a sum is wrong.
 */
#include <atomic>
#include <condition_variable>
#include <cstdlib>
#include <deque>
#include <future>
#include <mutex>
#include <shared_mutex>
#include <stdexcept>
#include <thread>
#include <vector>

namespace {
constexpr long ITEMS = 60000;
constexpr std::size_t ROOM = 64;

class queue {
public:
	void put(long item)
	{
		std::unique_lock lock(mutex);
		not_full.wait(lock, [&] { return items.size() < ROOM; });
		items.push_back(item);
		not_empty.notify_one();
	}

	long take()
	{
		std::unique_lock lock(mutex);
		not_empty.wait(lock, [&] { return !items.empty(); });
		const long item = items.front();
		items.pop_front();
		not_full.notify_one();
		return item;
	}

private:
	std::mutex mutex;
	std::condition_variable not_full, not_empty;
	std::deque<long> items;
};

bool hands_over(long n)
{
	queue q;
	std::atomic<long> sum{ 0 };
	std::vector<std::thread> all;
	const long each = ITEMS / n;

	for (long i = 0; i < n; i++) {
		all.emplace_back([&] {
			for (long k = 1; k <= each; k++)
				q.put(k);
		});
		all.emplace_back([&] {
			for (long k = 0; k < each; k++)
				sum += q.take();
		});
	}
	for (auto &t : all)
		t.join();
	return sum == n * (each * (each + 1) / 2);
}

bool reads_and_writes(long n)
{
	std::shared_mutex mutex;
	std::vector<long> table(16);
	std::atomic<bool> good{ true };
	std::vector<std::thread> all;
	const long each = ITEMS / n;

	for (long i = 0; i < n; i++)
		all.emplace_back([&, i] {
			for (long k = 0; k < each; k++) {
				if (k % 16 == i % 16) {
					std::unique_lock lock(mutex);
					for (auto &x : table)
						x++;
				} else {
					std::shared_lock lock(mutex);
					if (table.front() != table.back())
						good = false;
				}
			}
		});
	for (auto &t : all)
		t.join();
	return good;
}

bool answers(long n)
{
	long sum = 0, caught = 0;

	for (long k = 0; k < 2000 / n; k++) {
		std::vector<std::future<long>> all;

		for (long i = 0; i < n; i++)
			all.push_back(std::async(std::launch::async, [i] {
				if (i % 2)
					throw std::runtime_error("odd");
				return i;
			}));
		for (auto &f : all)
			try {
				sum += f.get();
			} catch (const std::runtime_error &) {
				caught++;
			}
	}
	return caught == 2000 / n * (n / 2) && sum >= 0;
}
} // namespace

int main(int argc, char *argv[])
{
	const long n = argc > 1 ? std::atol(argv[1]) : 2;

	return hands_over(n) && reads_and_writes(n) && answers(n) ? 0 : 1;
}
