/* SPDX-License-Identifier: Apache-2.0 */
/*
 * memory.c - each access of the runtime's, and when others see it.
 *
 * The runtime is compiled with -fsanitize=thread, and the functions that such code
 * calls are here instead of in libtsan: every atomic access is a call, every plain one
 * is announced by one before it happens. So no source of the runtime knows of this.
 *
 * Memory has three models. In all of them what is in memory is seen by everybody
 * alike (as on x86-64 and arm64); what differs is when a store gets there:
 *
 *	sc	at once
 *	tso	it stands in its CPU's buffer, first in, first out; an atomic
 *		read-modify-write, a full fence and the kernel empty that (x86-64)
 *	weak	the same, and stores overtake one another (arm64): one leaves when
 *		none before it is of the same bytes, none before it stands behind a
 *		release fence, and, if it is a release itself, none is before it. A
 *		read-modify-write waits for what it orders: with release for all, with
 *		acquire or relaxed for stores to the same place only
 *
 * Which one leaves, and when, is the seed's. membarrier empties all buffers. A load
 * finds its own CPU's store.
 *
 * A plain store happens in the program itself, after its announcement; the next call
 * of its CPU takes it back and puts it into the buffer. Those to the own stack stay:
 * what the compiler keeps there itself is announced by nobody, and would be lost.
 *
 * Not modelled: loads that are done before earlier loads or stores are (what a load
 * finds is old only as far as it stands in somebody's buffer), so a missing acquire is
 * not found; stores to the CPU's own stack that come late; loads and stores that
 * the compiler moves, beyond what this build of it did.
 */
#include "sim.h"

#include <string.h>

static inline bool on_own_stack(const struct cpu *c, uintptr_t at)
{
	return at - c->stack_low < c->stack_high - c->stack_low;
}

/* Words that only code on the CPU itself looks at. */
static inline bool is_private(const struct cpu *c, uintptr_t at)
{
	return at - c->tp < sizeof(struct here);
}

static inline bool overlaps(const struct store *s, uintptr_t at, uint32_t bytes)
{
	return at < s->at + s->bytes && s->at < at + bytes;
}

static void arrive(struct cpu *c, uint32_t i)
{
	const struct store s = c->stores[i];

	memcpy((void *)s.at, s.value, s.bytes);
	c->nstores--;
	memmove(&c->stores[i], &c->stores[i + 1],
		(c->nstores - i) * sizeof(c->stores[0]));
}

/* Has the store that was announced last: it goes where it belongs. */
static void catch_up(struct cpu *c)
{
	struct store *s;
	void *at;

	if (!c->written)
		return;
	at = (void *)c->written;
	c->written = 0;
	/* The same again, and no other store of its own on its way there? */
	if (!c->nstores && !memcmp(at, c->before, c->written_bytes))
		return;
	if (c->nstores == BUFFER) {
		unsigned char now[16];

		memcpy(now, at, c->written_bytes);
		memcpy(at, c->before, c->written_bytes);
		arrive(c, 0);
		/* What it held there may be what has just arrived. */
		memcpy(c->before, at, c->written_bytes);
		memcpy(at, now, c->written_bytes);
	}
	s = &c->stores[c->nstores++];
	s->at = (uintptr_t)at;
	s->bytes = c->written_bytes;
	s->epoch = c->epoch;
	s->release = false;
	s->since = sim.steps;
	memcpy(s->value, at, s->bytes);
	memcpy(at, c->before, s->bytes);
}

void memory_drain(struct cpu *c)
{
	catch_up(c);
	while (c->nstores)
		arrive(c, 0);
}

void memory_drain_all(void)
{
	int i;

	for (i = 0; i < sim.ncpus; i++)
		memory_drain(&sim.cpus[i]);
}

void memory_drain_of(struct cpu *c, uintptr_t at, uint32_t bytes)
{
	uint32_t i, n = 0;

	for (i = 0; i < c->nstores; i++)
		if (overlaps(&c->stores[i], at, bytes))
			n = i + 1;
	while (n--)
		arrive(c, 0);
}

static bool may_leave(const struct cpu *c, uint32_t i)
{
	const struct store *s = &c->stores[i];
	uint32_t k;

	for (k = 0; k < i; k++)
		if (s->release || sim.memory == MEMORY_TSO ||
		    c->stores[k].epoch != s->epoch ||
		    overlaps(&c->stores[k], s->at, s->bytes))
			return false;
	return true;
}

#define LATEST 400 /* steps, for each CPU, that a store may be unseen */

void memory_moves(void)
{
	struct cpu *c;
	uint32_t i;

	if (sim.memory == MEMORY_SC)
		return;
	c = &sim.cpus[sim.steps % (uint64_t)sim.ncpus];
	if (c->nstores && sim.steps - c->stores[0].since > LATEST) {
		arrive(c, 0);
		return;
	}
	if (sim_random(4))
		return;
	c = &sim.cpus[sim_random((uint64_t)sim.ncpus)];
	if (!c->nstores)
		return;
	i = (uint32_t)sim_random(c->nstores);
	if (may_leave(c, i))
		arrive(c, i);
}

static void push(struct cpu *c, uintptr_t at, uint32_t bytes, const void *value,
		 bool release)
{
	struct store *s;

	if (c->nstores == BUFFER)
		arrive(c, 0);
	s = &c->stores[c->nstores++];
	s->at = at;
	s->bytes = bytes;
	s->epoch = c->epoch;
	s->release = release;
	s->since = sim.steps;
	memcpy(s->value, value, bytes);
}

/* ---- plain accesses ---- */

static void plain_read(const void *p, uint32_t bytes)
{
	const uintptr_t at = (uintptr_t)p;
	struct cpu *c = sim.cpu;

	if (!c)
		return;
	catch_up(c);
	if (c->nstores)
		memory_drain_of(c, at, bytes);
	if (sim.measuring)
		lines_access(at, bytes, false);
}

static void plain_write(const void *p, uint32_t bytes)
{
	const uintptr_t at = (uintptr_t)p;
	struct cpu *c = sim.cpu;

	if (!c)
		return;
	catch_up(c);
	if (sim.measuring)
		lines_access(at, bytes, true);
	if (sim.memory == MEMORY_SC || bytes > 16 || on_own_stack(c, at) ||
	    is_private(c, at)) {
		if (c->nstores)
			memory_drain_of(c, at, bytes);
		return;
	}
	/* A TSO buffer keeps the order, so what is in it goes first. */
	c->written = at;
	c->written_bytes = bytes;
	memcpy(c->before, p, bytes);
}

#define PLAIN(n)                                 \
	void __tsan_read##n(void *p);            \
	void __tsan_write##n(void *p);           \
	void __tsan_unaligned_read##n(void *p);  \
	void __tsan_unaligned_write##n(void *p); \
	void __tsan_volatile_read##n(void *p);   \
	void __tsan_volatile_write##n(void *p);  \
	void __tsan_read##n(void *p)             \
	{                                        \
		plain_read(p, n);                \
	}                                        \
	void __tsan_write##n(void *p)            \
	{                                        \
		plain_write(p, n);               \
	}                                        \
	void __tsan_unaligned_read##n(void *p)   \
	{                                        \
		plain_read(p, n);                \
	}                                        \
	void __tsan_unaligned_write##n(void *p)  \
	{                                        \
		plain_write(p, n);               \
	}                                        \
	void __tsan_volatile_read##n(void *p)    \
	{                                        \
		plain_read(p, n);                \
	}                                        \
	void __tsan_volatile_write##n(void *p)   \
	{                                        \
		plain_write(p, n);               \
	}

PLAIN(1)
PLAIN(2)
PLAIN(4)
PLAIN(8)
PLAIN(16)

void __tsan_init(void);
void __tsan_func_entry(void *from);
void __tsan_func_exit(void);
void __tsan_read_range(void *p, unsigned long bytes);
void __tsan_write_range(void *p, unsigned long bytes);
void __tsan_vptr_update(void **p, void *value);

void __tsan_init(void)
{
}

void __tsan_func_entry(void *from)
{
	(void)from;
}

void __tsan_func_exit(void)
{
}

void __tsan_read_range(void *p, unsigned long bytes)
{
	plain_read(p, (uint32_t)bytes);
}

void __tsan_write_range(void *p, unsigned long bytes)
{
	plain_write(p, (uint32_t)bytes);
}

/* ---- atomic ones ---- */

static inline bool releases(int order)
{
	return order == __ATOMIC_RELEASE || order == __ATOMIC_ACQ_REL ||
	       order == __ATOMIC_SEQ_CST;
}

/* True: whoever looks at the word runs on this CPU, or nobody runs. */
static inline bool begin(struct cpu *c, const volatile void *p, uint32_t bytes,
			 const char *what, uint64_t value, bool write,
			 const void *from)
{
	const uintptr_t at = (uintptr_t)p;

	if (!c)
		return true;
	catch_up(c);
	if (sim.measuring)
		lines_access(at, bytes, write);
	if (is_private(c, at)) {
		if (c->nstores)
			memory_drain_of(c, at, bytes);
		return true;
	}
	cpu_point(what, p, value, from);
	return false;
}

/* What its own CPU has stored there, whole; false: not in the buffer. */
static bool own_store(struct cpu *c, uintptr_t at, uint32_t bytes, void *value)
{
	uint32_t i;

	for (i = c->nstores; i--;) {
		const struct store *s = &c->stores[i];

		if (!overlaps(s, at, bytes))
			continue;
		if (s->at == at && s->bytes == bytes) {
			memcpy(value, s->value, bytes);
			return true;
		}
		memory_drain_of(c, at, bytes);
		return false;
	}
	return false;
}

static void before_rmw(struct cpu *c, const volatile void *p, uint32_t bytes,
		       int order)
{
	if (!c || !c->nstores)
		return;
	if (sim.memory == MEMORY_TSO || releases(order))
		memory_drain(c);
	else
		memory_drain_of(c, (uintptr_t)p, bytes);
}

static void fence(int order, const void *from)
{
	struct cpu *c = sim.cpu;

	if (!c)
		return;
	catch_up(c);
	cpu_point("fence", NULL, (uint64_t)order, from);
	if (order == __ATOMIC_SEQ_CST)
		memory_drain(sim.cpu);
	else if (releases(order))
		sim.cpu->epoch++;
}

void __tsan_atomic_thread_fence(int order);
void __tsan_atomic_signal_fence(int order);

void __tsan_atomic_thread_fence(int order)
{
	fence(order, __builtin_return_address(0));
}

void __tsan_atomic_signal_fence(int order)
{
	(void)order;
}

#define FROM __builtin_return_address(0)

#define RMW(bits, type, name, text, expression)                                \
	type __tsan_atomic##bits##_##name(volatile type *p, type v,            \
					  int order);                          \
	type __tsan_atomic##bits##_##name(volatile type *p, type v, int order) \
	{                                                                      \
		struct cpu *c = sim.cpu;                                       \
		type old;                                                      \
                                                                               \
		begin(c, p, sizeof(type), text, (uint64_t)v, true, FROM);      \
		before_rmw(sim.cpu, p, sizeof(type), order);                   \
		old = *p;                                                      \
		*p = (type)(expression);                                       \
		return old;                                                    \
	}

#define CAS(bits, type, name)                                                \
	int __tsan_atomic##bits##_compare_exchange_##name(volatile type *p,  \
							  type *expected,    \
							  type v, int order, \
							  int failing);      \
	int __tsan_atomic##bits##_compare_exchange_##name(volatile type *p,  \
							  type *expected,    \
							  type v, int order, \
							  int failing)       \
	{                                                                    \
		struct cpu *c = sim.cpu;                                     \
		const type wanted = *expected;                               \
                                                                             \
		(void)failing;                                               \
		begin(c, p, sizeof(type), "cas", (uint64_t)v, true, FROM);   \
		before_rmw(sim.cpu, p, sizeof(type), order);                 \
		*expected = *p;                                              \
		if (*expected != wanted)                                     \
			return 0;                                            \
		*p = v;                                                      \
		return 1;                                                    \
	}

#define ATOMIC(bits, type)                                                     \
	type __tsan_atomic##bits##_load(const volatile type *p, int order);    \
	type __tsan_atomic##bits##_load(const volatile type *p, int order)     \
	{                                                                      \
		struct cpu *c = sim.cpu;                                       \
		type v;                                                        \
                                                                               \
		(void)order;                                                   \
		if (begin(c, p, sizeof(type), "load", 0, false, FROM) ||       \
		    !own_store(sim.cpu, (uintptr_t)p, sizeof(type), &v))       \
			v = *p;                                                \
		return v;                                                      \
	}                                                                      \
	void __tsan_atomic##bits##_store(volatile type *p, type v, int order); \
	void __tsan_atomic##bits##_store(volatile type *p, type v, int order)  \
	{                                                                      \
		struct cpu *c = sim.cpu;                                       \
                                                                               \
		if (begin(c, p, sizeof(type), "store", (uint64_t)v, true,      \
			  FROM) ||                                             \
		    sim.memory == MEMORY_SC) {                                 \
			*p = v;                                                \
			return;                                                \
		}                                                              \
		c = sim.cpu; /* a tick may have moved us */                    \
		if (on_own_stack(c, (uintptr_t)p)) {                           \
			if (releases(order) || sim.memory == MEMORY_TSO)       \
				memory_drain(c);                               \
			else                                                   \
				memory_drain_of(c, (uintptr_t)p,               \
						sizeof(type));                 \
			*p = v;                                                \
			return;                                                \
		}                                                              \
		push(c, (uintptr_t)p, sizeof(type), &v, releases(order));      \
		if (order == __ATOMIC_SEQ_CST)                                 \
			memory_drain(c);                                       \
	}                                                                      \
	RMW(bits, type, exchange, "exchange", v)                               \
	RMW(bits, type, fetch_add, "add", old + v)                             \
	RMW(bits, type, fetch_sub, "sub", old - v)                             \
	RMW(bits, type, fetch_and, "and", old &v)                              \
	RMW(bits, type, fetch_or, "or", old | v)                               \
	RMW(bits, type, fetch_xor, "xor", old ^ v)                             \
	CAS(bits, type, strong)                                                \
	CAS(bits, type, weak)

ATOMIC(8, uint8_t)
ATOMIC(16, uint16_t)
ATOMIC(32, uint32_t)
ATOMIC(64, uint64_t)
