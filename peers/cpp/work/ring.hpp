/* SPDX-License-Identifier: Apache-2.0 */
/*
 * ring.hpp - the trial `ring`: two threads on one CPU hand over to one another, by
 * yielding or through a channel. As in probes/switching/ring.c a batch of laps is timed
 * as a whole and the first is warm-up.
 */
#ifndef PEERS_CPP_RING_HPP
#define PEERS_CPP_RING_HPP

#include "../work.hpp"

namespace ring {

struct pair {
	std::int64_t batches, laps;
	bool by_channel;
	std::vector<std::int64_t> took;
	rt::channel there, back;
};

/* So often for each batch; what the batches took. */
inline void *timing(void *argument)
{
	auto *all = static_cast<pair *>(argument);
	std::int64_t begin = probe::now();

	all->took.reserve(static_cast<std::size_t>(all->batches));
	for (std::int64_t batch = 0; batch <= all->batches; batch++) {
		for (std::int64_t i = 0; i < all->laps; i++) {
			if (all->by_channel) {
				all->there.send(1);
				all->back.receive();
			} else {
				rt::yield();
			}
		}
		const std::int64_t end = probe::now();
		if (batch)
			all->took.push_back(end - begin);
		begin = end;
	}
	return nullptr;
}

inline void *other(void *argument)
{
	auto *all = static_cast<pair *>(argument);

	for (std::int64_t i = (all->batches + 1) * all->laps; i; i--) {
		if (all->by_channel)
			all->back.send(all->there.receive());
		else
			rt::yield();
	}
	return nullptr;
}

[[noreturn]] inline void perform(json_t *json)
{
	const std::string by =
		probe::choice(json, "by", { "yield", "channel" });
	trial t{};

	probe::number(json, "members", 2, 2);
	const std::int64_t batches = probe::number(json, "batches", 1, 100000);
	const std::int64_t laps = probe::number(json, "laps", 1, 10000000);
	t.cpus = probe::stay_on(json, 1);
	t.workers = 1;
	rt::start_up(t);
	rt::inside([&] {
		pair all{ batches, laps, by == "channel", {}, {}, {} };
		rt::thread second = rt::create(other, &all);
		rt::thread first = rt::create(timing, &all);
		std::int64_t wall = 0;

		rt::join(first);
		rt::join(second);
		for (const std::int64_t ns : all.took)
			wall += ns;
		std::sort(all.took.begin(), all.took.end());
		json_t *sample = probe::sample(RT_MODEL, rt::version());
		const auto each = [&](const char *name, double share) {
			const auto ns = static_cast<double>(
				probe::quantile(all.took, share));
			json_object_set_new(
				sample, name,
				json_real(ns / static_cast<double>(2 * laps)));
		};
		json_object_set_new(sample, "wall_ns", json_integer(wall));
		json_object_set_new(sample, "passes",
				    json_integer(2 * laps * (batches + 1)));
		each("each_p10_ns", 0.1);
		each("each_p50_ns", 0.5);
		each("each_p90_ns", 0.9);
		each("each_p99_ns", 0.99);
		probe::end(sample);
	});
	std::_Exit(3);
}

} // namespace ring

#endif
