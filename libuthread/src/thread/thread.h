/* SPDX-License-Identifier: Apache-2.0 */
/* thread.h - the end of a uthread, among the files of this room. */
#ifndef UTHREAD_THREAD_H
#define UTHREAD_THREAD_H

#include "base/nouns.h"

/* In uthread_exit(): this handler (tls/cancel.c) has run. */
void exit_goes_on(struct uthread *me, void *handler) __attribute__((noreturn));

#endif
