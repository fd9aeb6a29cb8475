/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_copy.c - copies from file to file by copy_file_range(), sendfile() and syscall() are as
 * long as was asked for, or as the file is, while threads take turns.
 */
#include <fcntl.h>
#include <sys/sendfile.h>
#include <sys/syscall.h>

#include "check.h"

#define SIZE (2 << 20)
#define TURNS 20

static int from;
static int copying = 2, supported; /* atomic */

static int file(void)
{
	char name[] = "/tmp/test_copy.XXXXXX";
	const int fd = mkstemp(name);

	CHECK(fd >= 0);
	IS(unlink(name), 0);
	return fd;
}

/* Of another file system or kernel, which has none of it, is nothing said. */
static int ranges(void)
{
	const int to = file();
	off64_t in_at = 0;
	const ssize_t got = copy_file_range(from, &in_at, to, NULL, 1, 0);

	close(to);
	return got == 1;
}

static void *copies(void *arg)
{
	const int to = file();
	off64_t in_at, out_at;
	int i;

	for (i = 0; i < TURNS; i++) {
		in_at = 0;
		IS(lseek(to, 0, SEEK_SET), 0);
		IS(sendfile(to, from, &in_at, SIZE), SIZE);
		IS(in_at, SIZE);
		in_at = 1; /* to the end, and not further */
		IS(sendfile(to, from, &in_at, 2 * SIZE), SIZE - 1);
		IS(in_at, SIZE);
		in_at = 0;
		IS(lseek(to, 0, SEEK_SET), 0);
		IS(syscall(SYS_sendfile, to, from, &in_at, (size_t)SIZE), SIZE);
		if (!supported)
			continue;
		in_at = out_at = 0;
		IS(copy_file_range(from, &in_at, to, &out_at, SIZE, 0), SIZE);
		IS(out_at, SIZE);
		in_at = out_at = 0;
		IS(syscall(SYS_copy_file_range, from, &in_at, to, &out_at,
			   (size_t)SIZE, 0u),
		   SIZE);
	}
	IS(close(to), 0);
	__atomic_fetch_sub(&copying, 1, __ATOMIC_RELAXED);
	return arg;
}

static void *computes(void *arg)
{
	while (__atomic_load_n(&copying, __ATOMIC_RELAXED))
		;
	return arg;
}

int main(void)
{
	char *block = malloc(SIZE);
	pthread_t t[5];
	int i;

	CHECK(block);
	memset(block, 'a', SIZE);
	from = file();
	IS(write(from, block, SIZE), SIZE);
	supported = ranges();
	for (i = 0; i < 5; i++)
		t[i] = start(i < 2 ? copies : computes, NULL);
	for (i = 0; i < 5; i++)
		IS(pthread_join(t[i], NULL), 0);
	free(block);
	return 0;
}
