/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * What differs between the kernels this module is built for.
 *
 * Built and tested against 6.1, 6.12 and 7.3; newer ones should only need lines
 * here. A feature is tested for, never a version: distributions backport.
 */
#ifndef KTHREAD_PERF_COMPAT_H
#define KTHREAD_PERF_COMPAT_H

#include <linux/irq_work.h>
#include <linux/sched.h>
#include <uapi/linux/sched/types.h>

#ifndef IRQ_WORK_INIT_HARD
#error "kthread_perf needs irq_work with the hard flag"
#endif

#endif
