/* SPDX-License-Identifier: Apache-2.0 */
/*
 * hogs.c - linked to an example, beside whose uthreads HOGS others (environment; 0)
 * then compute for ever. For http_soak.py; at SIGUSR1 it dumps, so that who waits
 * for what can be seen where something stands still.
 */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <uthread.h>

static void *hog(void *arg)
{
	volatile unsigned long n = 0;

	for (;;)
		n++;
	return arg;
}

static void on_dump(int sig)
{
	(void)sig;
	uthread_dump(2);
}

__attribute__((constructor)) static void start_hogs(void)
{
	const char *text = getenv("HOGS");
	int n = text ? atoi(text) : 0;
	uthread_t t;

	signal(SIGUSR1, on_dump);
	while (n-- > 0) {
		if (uthread_create(&t, NULL, hog, NULL) || uthread_detach(t)) {
			fputs("hogs: no uthread can be had\n", stderr);
			_Exit(1);
		}
	}
}
