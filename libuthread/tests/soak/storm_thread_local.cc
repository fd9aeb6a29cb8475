// SPDX-License-Identifier: Apache-2.0
/*
 * storm_thread_local.cc - what belongs to a thread: thread_local objects with
 * constructors and destructors, plain __thread variables, pthread and uthread
 * keys. Each is new in every uthread, its own at every moment, and comes to
 * its end once.
 */
#include "soak.h"

#include <string>
#include <vector>

static int64_t made, gone, pthread_values, uthread_values;
static pthread_key_t pkey;
static uthread_key_t ukey;

struct object {
	uint32_t owner = 0;
	std::vector<uint32_t> seen;
	std::string text;

	object()
	{
		add(&made, 1);
	}

	~object()
	{
		for (uint32_t x : seen)
			CHECK_EQ(x, owner);
		CHECK(owner ? text == std::to_string(owner) : text.empty());
		add(&gone, 1);
	}
};

static thread_local object mine;
static thread_local object seldom;
static thread_local uint32_t counter = 17;
static __thread uint32_t zero, table[300];

static void pthread_value_ends(void *value)
{
	CHECK(*static_cast<uint32_t *>(value));
	delete static_cast<uint32_t *>(value);
	add(&pthread_values, -1);
}

static void uthread_value_ends(void *value)
{
	CHECK(*static_cast<uint32_t *>(value));
	delete static_cast<uint32_t *>(value);
	add(&uthread_values, -1);
}

static void setup()
{
	CHECK(!pthread_key_create(&pkey, pthread_value_ends));
	CHECK_EQ(uthread_key_create(&ukey, uthread_value_ends), 0);
}

static void use_objects(struct soak *s)
{
	object *at = &mine;

	if (!mine.owner) {
		CHECK_EQ(mine.seen.size(), 0);
		CHECK(mine.text.empty());
		mine.owner = s->tag;
		mine.text = std::to_string(s->tag);
	}
	CHECK_EQ(mine.owner, s->tag);
	mine.seen.push_back(s->tag);
	soak_spin(300);
	CHECK(at == &mine && mine.seen.back() == s->tag);
	if (soak_random(s, 10) == 0) {
		CHECK(!seldom.owner || seldom.owner == s->tag);
		seldom.owner = s->tag;
		seldom.text = std::to_string(s->tag);
	}
}

static void use_variables(struct soak *s)
{
	uint32_t i = soak_random(s, 300);

	counter++;
	zero++;
	CHECK_EQ(counter, zero + 17);
	uthread_yield();
	CHECK(!table[i] || table[i] == s->tag);
	table[i] = s->tag;
	soak_spin(300);
	CHECK_EQ(table[i], s->tag);
	CHECK_EQ(counter, zero + 17);
}

static void use_keys(struct soak *s)
{
	uint32_t *p = static_cast<uint32_t *>(pthread_getspecific(pkey));
	uint32_t *u = static_cast<uint32_t *>(uthread_getspecific(ukey));

	if (!p) {
		p = new uint32_t(s->tag);
		CHECK(!pthread_setspecific(pkey, p));
		add(&pthread_values, 1);
	}
	if (!u) {
		u = new uint32_t(s->tag);
		CHECK_EQ(uthread_setspecific(ukey, u), 0);
		add(&uthread_values, 1);
	}
	CHECK_EQ(*p, s->tag);
	CHECK_EQ(*u, s->tag);
}

static void begin(struct soak *s)
{
	CHECK_EQ(counter, 17);
	CHECK_EQ(zero, 0);
	for (uint32_t x : table)
		CHECK_EQ(x, 0);
	CHECK(!pthread_getspecific(pkey) && !uthread_getspecific(ukey));
	use_objects(s);
}

static void round_of_thread_local(struct soak *s)
{
	use_objects(s);
	use_variables(s);
	use_keys(s);
}

static void finish()
{
	/* Detached ones may still be on their way out. */
	while (load(&made) != load(&gone))
		usleep(1000);
	CHECK_EQ(load(&pthread_values), 0);
	CHECK_EQ(load(&uthread_values), 0);
}

STORM(thread_local, 300, 64, 0, 0, setup, begin, round_of_thread_local, nullptr,
      finish, nullptr)
