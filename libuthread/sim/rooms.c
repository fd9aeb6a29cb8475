/* SPDX-License-Identifier: Apache-2.0 */
/* rooms.c - of the rooms that are not simulated: what they are asked for does nothing. */
#include "sim.h"

#include "io/io.h"
#include "preempt/preempt.h"
#include "process/process.h"
#include "signals/signals.h"
#include "stack/stack.h"
#include "sync/sync.h"
#include "thread/thread.h"
#include "tls/tls.h"

uint64_t for_another_begun;
struct tls_layout tls_layout;
struct tls_hooks tls_hooks;
uint32_t last_alone;

void for_another_lets_in(uint64_t mask)
{
	(void)mask;
}

void for_another_ended(struct uthread *me)
{
	(void)me;
}

bool spare_is_left(void)
{
	return false;
}

void keeper_abandon(const struct uthread *me)
{
	(void)me;
}

/* Who is sought by a number. */
void stack_each(void (*fn)(struct uthread *ut, void *arg), void *arg)
{
	(void)fn;
	(void)arg;
}

bool cancel_is_off(const struct uthread *ut)
{
	(void)ut;
	return false;
}

void *cancel_handler(const struct uthread *me)
{
	(void)me;
	return NULL;
}

struct _pthread_cleanup_buffer *cancel_inner(const struct uthread *me)
{
	(void)me;
	return NULL;
}

void cancel_jump(void *handler)
{
	sim_fail("a handler of libc's at %p", handler);
}

void cancel_handled(void *handler)
{
	(void)handler;
}

void cancel_run_inner(struct uthread *me)
{
	(void)me;
}

bool cancel_marks(const struct uthread *ut)
{
	(void)ut;
	return false;
}

void cancel_unmark(const struct uthread *me)
{
	(void)me;
}

bool keys_round(struct uthread *ut)
{
	(void)ut;
	return false;
}

void keys_drop(struct uthread *ut)
{
	(void)ut;
}

void last_begins(struct uthread *me)
{
	(void)me;
}

void last_ended(struct uthread *me)
{
	(void)me;
}

uintptr_t jump_from_wait(const struct uthread *me)
{
	(void)me;
	return 0;
}

bool jump_is_at_wait(const struct uthread *me, uintptr_t sp)
{
	(void)me;
	(void)sp;
	return true;
}

void jump_to_wait(struct uthread *me)
{
	(void)me;
	sim_fail("nobody ends in a handler");
}

void malloc_cache_give_back(struct uthread *me)
{
	(void)me;
}

bool malloc_cache_is_much(struct uthread *me)
{
	(void)me;
	return false;
}

void malloc_cache_reused(struct uthread *ut)
{
	(void)ut;
}

void mask_inherit_unsure(struct uthread *ut, const struct uthread *me)
{
	ut->mask = rt.mask;
	(void)me;
}

void raised_forget(struct uthread *me)
{
	(void)me;
}

void sent_forget(struct uthread *me)
{
	(void)me;
}

void timers_end(struct uthread *me)
{
	(void)me;
}

int runtime_start(const struct uthread_config *user)
{
	(void)user;
	sim_fail("the runtime has not started");
}

struct uthread *stack_at(const void *address)
{
	(void)address;
	return NULL;
}

unsigned stack_class(size_t usable, size_t bytes)
{
	(void)usable;
	(void)bytes;
	return STACK_CLASS_MIN;
}

uint32_t stack_kept_id(uint32_t id)
{
	return id;
}

uint32_t stack_next_id(uint32_t id)
{
	return id; /* of its slot, for whoever looks */
}

size_t stack_page(void)
{
	return 4096;
}

void lookup_left(uintptr_t tp)
{
	(void)tp;
}

void tls_begin(void)
{
}

void tls_end(void)
{
}

size_t tls_bytes(void)
{
	return 0;
}

void tls_last_round(void)
{
}

const char *tls_reason(void)
{
	return "";
}

void tls_renumber(struct uthread *ut)
{
	(void)ut;
}

void tls_reset(struct uthread *ut)
{
	(void)ut;
}

bool tls_round(struct uthread *me)
{
	(void)me;
	return false;
}

int workers_number(const struct worker *w)
{
	return w->number;
}

/* Select between channels only. */
uint32_t io_fd_gen(int fd)
{
	(void)fd;
	return 0;
}

int io_watch_add(struct io_watch *x, struct waiter *w, int fd, uint32_t events)
{
	(void)x;
	(void)w;
	(void)fd;
	(void)events;
	return ENOSYS;
}

int io_watch_wait(struct waiter *w, uint64_t deadline)
{
	(void)w;
	(void)deadline;
	return ENOSYS;
}

void io_watch_remove(struct io_watch *x)
{
	(void)x;
}
