/* SPDX-License-Identifier: Apache-2.0 */
/*
 * interpose.h - functions of libc that must know about uthreads. They are
 * defined here under libc's names and found before libc's own because the
 * program links libuthread first. Before any uthread exists they only pass the
 * call on.
 *
 * All of libc's are looked up before the program runs (interpose.c): dlsym() takes the
 * loader's lock, and who has it, in a constructor of a library that is being opened, may
 * wait for a thread that is here for the first time.
 */
#ifndef UTHREAD_BASE_INTERPOSE_H
#define UTHREAD_BASE_INTERPOSE_H

#include <dlfcn.h>

#define EXPORT __attribute__((visibility("default")))

struct next_one {
	void **var;
	const char *name;
};

/* `var` is static. Again here, for who is called before interpose.c has looked. */
#define NEXT(var_, name_)                                                  \
	__extension__({                                                    \
		static struct next_one next_one_                           \
			__attribute__((section("uthread_next"), used)) = { \
				(void **)(void *)&(var_), name_            \
			};                                                 \
		*next_one_.var = dlsym(RTLD_NEXT, next_one_.name);         \
	})

#endif
