/* SPDX-License-Identifier: Apache-2.0 */
/*
 * main.cpp - a peer in C or C++: a probe by the same protocol that knows the trials
 * `work` and `ring` of one runtime. Which, says RUNTIME, a file of runtime/; so each
 * peer is this program once more, and its work the same text for all.
 */
#include "work.hpp"

#include RUNTIME

#include "work/yield.hpp"
#include "work/spawn.hpp"
#if RT_SYNC
#include "work/ring.hpp"
#include "work/pass.hpp"
#include "work/lock.hpp"
#include "work/late.hpp"
#include "work/park.hpp"
#endif

#include <functional>
#include <map>

namespace {

using piece = outcome (*)(const trial &);

const std::map<std::string, piece> pieces = {
	{ "yield", work::yield },	    { "create", work::create },
	{ "batch", work::batch },	    { "skynet", work::skynet },
	{ "fibonacci", work::fibonacci },   { "queens", work::queens },
	{ "increments", work::increments },
#if RT_SYNC
	{ "channel", work::channel },	    { "condition", work::condition },
	{ "mutex", work::mutex },	    { "contended", work::contended },
	{ "sleep", work::sleep },	    { "requests", work::requests },
	{ "parked", work::parked },
#endif
};

/* From outside: by a thread that is none of the runtime's, where it has such. */
const std::map<std::string, piece> outside = {
	{ "create-main", work::create },
	{ "batch-main", work::batch },
};

const char program[] = "swtch-probe-" RT_MODEL;

void perform_work(json_t *json)
{
	const trial t = read_trial(json);

	if (!pieces.count(t.work) && !outside.count(t.work))
		unmeasured(RT_MODEL, rt::version(),
			   "it has no " + t.work.substr(0, 60));
	if (t.workers > 1 && !rt::several)
		unmeasured(RT_MODEL, rt::version(), "it has one worker");
	const auto inner = pieces.find(t.work);
	outcome o{};

	rt::start_up(t);
	if (inner != pieces.end())
		rt::inside([&] { o = inner->second(t); });
	else if (rt::foreign_main)
		o = outside.at(t.work)(t);
	else
		unmeasured(RT_MODEL, rt::version(), "its main is a thread");
	report(RT_MODEL, rt::version(), o);
}

} // namespace

int main()
{
	json_t *json = probe::begin(program, rt::version());
	const std::string what = probe::choice(json, "probe",
					       {
#if RT_SYNC
						       "ring",
#endif
						       "work" });

	probe::choice(json, "model", { RT_MODEL });
	probe::choice(json, "policy", { "other" });
	if (what == "work")
		perform_work(json);
#if RT_SYNC
	ring::perform(json);
#endif
	return 3;
}
