#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""plant.py NAME SRC OUT: a source of the runtime with one fault in it.

SRC is libuthread/src; OUT is the file to write. Each fault is one that somebody could
make: a fence that is missing, a look that is skipped, a flag that is lost. What it takes
away must stand in the source exactly once, so that a fault that a change has made
impossible to plant is found out, and is then planted anew where it belongs.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import NamedTuple


class Fault(NamedTuple):
    file: str  # that is compiled
    before: str
    after: str
    header: str = ""  # where it is, if not in the file


FAULTS = {
    # A fence that is missing.
    "idle-fence": Fault(
        "sched/idle.c", "\tbias_heavy_fence(); /* pairs with poke(): now look once more */\n", ""
    ),
    "thief-fence": Fault(
        "base/spin.c", "\tbias_heavy_fence(); /* pairs with the light fence in bias_lock() */\n", ""
    ),
    "home-fence": Fault("chan/lock.c", "\tbias_heavy_fence(); /* pairs: chan_lock() */\n", ""),
    "ask-fence": Fault(
        "sched/ask.c",
        "\t/* pairs: waiter_wait_for(), switch_leave(), ask_look() */\n\tbias_heavy_fence();\n",
        "",
    ),
    "inbox-fence": Fault(
        "sched/share.c",
        "\tfull_fence(); /* pairs with the heavy fence in go_idle(), nap() */\n",
        "",
    ),
    "futex-fence": Fault(
        "sync/futex.c",
        "\tfull_fence(); /* pairs: the count before the word in wait_until() */\n",
        "",
    ),
    # An order that is too weak.
    "unlock-order": Fault(
        "sched/share.c",
        "\tstore_release(lock, 0); /* pairs with acquire in spin_lock() */\n",
        "\tstore_relaxed(lock, 0);\n",
        header="base/spin.h",
    ),
    # A second look that is skipped.
    "idle-look": Fault(
        "sched/idle.c",
        "\tif (due || anything_left(w) || load_relaxed(&w->poison)) {\n",
        "\tif ((due && 0) || load_relaxed(&w->poison)) {\n",
    ),
    "looker-leaves": Fault(
        "sched/loop.c", "\t\t\tif (anything_to_steal(w))\n\t\t\t\twake_some();\n", "\t\t\t;\n"
    ),
    "woken-passes-on": Fault("sched/loop.c", "\t\t\tpass_on(w, woken);\n", ""),
    "woken-asks": Fault(
        "sched/loop.c",
        "\t\tif (unlikely(woken && load_relaxed(&rt.global_count)) &&\n",
        "\t\tif (0 && woken &&\n",
    ),
    "inbox-tick": Fault(
        "sched/loop.c",
        "\t\tif (load_relaxed(&w->count) || load_relaxed(&w->inbox_count))\n",
        "\t\tif (load_relaxed(&w->count))\n",
    ),
    "busy-look": Fault(
        "sched/sched.c",
        "\tif (likely(next && !load_acquire(&next->ctx.busy))) {\n",
        "\tif (likely(next)) {\n",
    ),
    "joined-look": Fault(
        "thread/exit.c",
        "\tdo {\n\t\tgone = old == JOIN_NONE ? JOIN_DONE : JOIN_GONE;\n"
        "\t} while (!__atomic_compare_exchange_n(&me->join, &old, gone, false,\n"
        "\t\t\t\t\t      __ATOMIC_ACQ_REL,\n\t\t\t\t\t      __ATOMIC_RELAXED));\n",
        "\tgone = old == JOIN_NONE ? JOIN_DONE : JOIN_GONE;\n"
        "\t__atomic_store_n(&me->join, gone, __ATOMIC_RELEASE);\n",
    ),
    "group-look": Fault("chan/waitgroup.c", "\tif (!load_relaxed(&g->_count)) {\n", "\tif (0) {\n"),
    "futex-look": Fault(
        "sync/futex.c",
        "\tif (__atomic_load_n(word, __ATOMIC_SEQ_CST) != value) {\n",
        "\tif (0 && value) {\n",
    ),
    # A flag, or a deadline, that is lost.
    "rwlock-flag": Fault(
        "sync/rwlock.c",
        "\t\t    become(l, &state, state | QUEUED))\n\t\t\treturn EBUSY;\n",
        "\t\t    load_relaxed(&l->_state) == state)\n\t\t\treturn EBUSY;\n",
    ),
    "rwlock-gives-up": Fault(
        "sync/rwlock.c",
        "\t\t/* Readers behind a writer that gave up need not wait. */\n\t\tgrant(l);\n",
        "",
    ),
    "mutex-flag": Fault(
        "sync/mutex.c",
        "\t\tif (__atomic_exchange_n(&m->_state, CONTENDED,\n",
        "\t\tif (__atomic_exchange_n(&m->_state, HELD,\n",
    ),
    "woken-takes-one": Fault(
        "sync/futex_lock.c",
        "\t\tif (!hot && !turn.first && may_spin() && spin_for(word))\n",
        "\t\tif (!hot && may_spin() && spin_for(word))\n",
    ),
    "timer-publish": Fault(
        "sched/timer.c",
        "\t\tlook_again(now_ns());\n\tpublish_next();\n",
        "\t\tlook_again(now_ns());\n",
    ),
    # Deadlines that a worker keeps itself: moved too late, or taken where they are not.
    "near-first": Fault(
        "sched/idle.c",
        "\tif (first) /* after the fence; pairs: sched_wake_for_timer() */\n",
        "\tif (first && 0)\n",
    ),
    "near-moved": Fault(
        "sched/timer.c", "\t\tif (likely(load_relaxed(&w->near) == near))\n", "\t\tif (1)\n"
    ),
    "timer-office": Fault("sched/idle.c", "\tif (timer_lost()) {\n", "\tif (0) {\n"),
    # An unlock before a push, a release before a lock.
    "sem-push": Fault(
        "sync/sem.c",
        "\twaitq_push(WAITQ(s), &wt);\n\tOBJECT_UNLOCK(s);\n\tr =",
        "\tOBJECT_UNLOCK(s);\n\twaitq_push(WAITQ(s), &wt);\n\tr =",
    ),
    "cond-release": Fault(
        "sync/cond.c",
        "\tuthread_mutex_unlock(m);\n\twaitq_push(WAITQ(c), wt);\n\tOBJECT_UNLOCK(c);\n",
        "\tOBJECT_UNLOCK(c);\n\tuthread_mutex_unlock(m);\n\tOBJECT_LOCK(c);\n"
        "\twaitq_push(WAITQ(c), wt);\n\tOBJECT_UNLOCK(c);\n",
    ),
    # Marks of who has work for others: one that is not set, is lost, or comes too late.
    "mark-added": Fault("sched/watch.c", "\twatch_added(w);\n\tbias_light", "\tbias_light"),
    "mark-all": Fault(
        "sched/share.c",
        "\tif (unlikely(load_relaxed(&rt.watched)))\n\t\twatch_added(w);\n",
        "",
        header="sched/runq.h",
    ),
    "mark-back": Fault(
        "sched/watch.c",
        "\t\tbits = c->mine[i] | load_relaxed(&rt.marks[i]);\n",
        "\t\tbits = load_relaxed(&rt.marks[i]);\n",
    ),
    "mark-since": Fault(
        "sched/watch.c",
        "\t\tbits = c->mine[i] | load_relaxed(&rt.marks[i]);\n",
        "\t\tbits = c->mine[i];\n",
    ),
    "watch-all": Fault(
        "sched/watch.c",
        "\tc->all = begins || !c->marks;\n",
        "\tc->all = !c->marks;\n\t(void)begins;\n",
    ),
    "watch-fence": Fault("sched/watch.c", "\tbias_heavy_fence(); /* pairs with poke() */\n", ""),
    # A line that all workers write (main.c finds it, not a schedule).
    "shared-line": Fault(
        "sched/sched.c",
        "\tstore_relaxed(&w->turns, t);\n",
        "\tstore_relaxed(&w->turns, t);\n\t__atomic_fetch_add(&rt.homes, 1, __ATOMIC_RELAXED);\n",
    ),
    # Who is in front of a child in its queue is out of date when others have taken from it.
    "children-taken": Fault("sched/share.c", "\tworker_taken_from(v);\n", ""),
    # What the runtime had: two thieves take one uthread from each other, for ever. That
    # one is spared for a while (is_spared()) would be enough against it, too.
    "stolen-again": Fault(
        "sched/share.c",
        "\tif (likely(w->kind != WORKER_RESCUER))\n\t\tw->handoff = list_pop(&l);\n"
        "\tstore_relaxed(&v->stolen_at, now_ns());\n",
        "",
    ),
}


def planted(text: str, fault: Fault, where: str) -> str:
    if text.count(fault.before) != 1:
        sys.exit(f"plant.py: {where} has not got exactly once:\n{fault.before}")
    return text.replace(fault.before, fault.after)


def main() -> None:
    name, src, out = sys.argv[1], Path(sys.argv[2]), Path(sys.argv[3])
    fault = FAULTS[name]
    text = (src / fault.file).read_text()
    if fault.header:
        # Before all others: its guard keeps the whole one away.
        header = planted((src / fault.header).read_text(), fault, fault.header)
        text = header + text
    else:
        text = planted(text, fault, fault.file)
    out.write_text(text)


if __name__ == "__main__":
    main()
