/* SPDX-License-Identifier: Apache-2.0 */
/* objects.h - the program and its libraries, wherever they were opened. */
#ifndef UTHREAD_BASE_OBJECTS_H
#define UTHREAD_BASE_OBJECTS_H

#include <link.h>

/*
 * As dl_iterate_phdr(), with its lock, and of those that dlmopen() has put into
 * namespaces of their own, too: these have no dlpi_tls_modid and no _data.
 * Leaves dlerror() alone, but for the first call.
 */
int objects_each(int (*fn)(struct dl_phdr_info *info, size_t size, void *arg),
		 void *arg);

#endif
