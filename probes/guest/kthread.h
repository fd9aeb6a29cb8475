/* SPDX-License-Identifier: Apache-2.0 */
/* `swtch-guest kthread`: one trial by the kernel module. See kthread.c. */
#ifndef SWTCH_GUEST_KTHREAD_H
#define SWTCH_GUEST_KTHREAD_H

/* Loads the module at @path; 0 or an error number. */
int kthread_load(const char *path);

/* Ends a run of the module's threads, if one is left. */
void kthread_stop_run(void);

/* Exit status as of a probe (docs/architecture.md). */
int kthread_probe(void);

#endif
