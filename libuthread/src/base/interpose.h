/* SPDX-License-Identifier: Apache-2.0 */
/*
 * interpose.h - functions of libc that must know about uthreads. They are
 * defined here under libc's names and found before libc's own because the
 * program links libuthread first. Before any uthread exists they only pass the
 * call on.
 */
#ifndef UTHREAD_BASE_INTERPOSE_H
#define UTHREAD_BASE_INTERPOSE_H

#include <dlfcn.h>

#define EXPORT __attribute__((visibility("default")))
#define NEXT(var, name) (*(void **)&(var) = dlsym(RTLD_NEXT, name))

#endif
