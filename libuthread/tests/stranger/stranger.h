/* SPDX-License-Identifier: Apache-2.0 */
/* stranger.h - a library that is not linked with libuthread. */
#ifndef STRANGER_H
#define STRANGER_H

#include <stddef.h>

int stranger_key(void (*destructor)(void *));
int stranger_set(void *value);
int stranger_stack(void **low, size_t *bytes);

#endif
