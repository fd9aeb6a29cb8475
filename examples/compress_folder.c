/* SPDX-License-Identifier: Apache-2.0 */
/*
 * compress-folder FROM TO [LEVEL]: a copy of a folder in which each file is
 * compressed, as gzip does it, to NAME.gz. TO must not be there yet.
 *
 * A uthread a file, and as many CPUs as there are:
 *
 * - Compressing computes and never waits. Ticks stop it wherever it is, in zlib too,
 *   so that little files do not queue behind a large one.
 * - A semaphore bounds how many are at work, and with them descriptors and memory
 *   (a deflate state is 256 KiB), however many files there are.
 * - All are children of one scope. The first error cancels the others, and each
 *   cleanup handler takes away what its uthread had half written.
 */
#include <err.h>
#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <uthread.h>
#include <zlib.h>

#define AT_WORK 64
#define CHUNK 32768
#define GZIP (MAX_WBITS + 16) /* deflateInit2(): with gzip's head and tail */

struct job {
	char *from, *to;
	int in, out; /* -1: not open */
	bool written; /* all of it */
	z_stream z; /* all zero: deflateEnd() has nothing to do */
	unsigned char plain[CHUNK], packed[CHUNK];
};

static const char *to_folder;
static size_t from_length;
static int level = Z_DEFAULT_COMPRESSION;
static uthread_scope_t jobs;
static uthread_sem_t places = UTHREAD_SEM_INITIALIZER(AT_WORK);
static atomic_ullong files, bytes_in, bytes_out;

static void job_end(void *arg)
{
	struct job *j = arg;

	deflateEnd(&j->z);
	if (j->in >= 0)
		close(j->in);
	if (j->out >= 0)
		close(j->out);
	if (j->out >= 0 && !j->written)
		unlink(j->to);
	free(j->from);
	free(j->to);
	free(j);
	uthread_sem_post(&places);
}

/* 0 or an error number; what is left to do is job_end()'s. */
static int compress_file(struct job *j)
{
	ssize_t n;
	size_t packed;

	if (deflateInit2(&j->z, level, Z_DEFLATED, GZIP, 8, Z_DEFAULT_STRATEGY))
		return ENOMEM;
	j->in = open(j->from, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
	if (j->in < 0)
		return errno;
	j->out = open(j->to, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
	if (j->out < 0)
		return errno;
	do {
		n = uthread_read(j->in, j->plain, CHUNK);
		if (n < 0)
			return errno;
		j->z.next_in = j->plain;
		j->z.avail_in = (unsigned)n;
		do {
			j->z.next_out = j->packed;
			j->z.avail_out = CHUNK;
			deflate(&j->z, n ? Z_NO_FLUSH : Z_FINISH);
			packed = CHUNK - j->z.avail_out;
			/* A part only: the disk is full. The next says so. */
			for (size_t at = 0; at < packed;) {
				ssize_t w = uthread_write(
					j->out, j->packed + at, packed - at);
				if (w < 0)
					return errno;
				at += (size_t)w;
			}
		} while (!j->z.avail_out);
	} while (n);
	j->written = true;
	files++;
	bytes_in += j->z.total_in;
	bytes_out += j->z.total_out;
	return 0;
}

static int run_job(void *arg)
{
	struct job *j = arg;
	int error = 0;

	uthread_cleanup_push(job_end, j);
	error = compress_file(j);
	if (error)
		warnx("%s: %s", j->from, strerror(error));
	uthread_cleanup_pop(1);
	return error;
}

/* nftw()'s: start a job for a file. Not 0: no more. */
static int visit(const char *path, const struct stat *st, int kind,
		 struct FTW *at)
{
	const char *name = path + from_length;
	struct job *j;

	(void)st;
	(void)at;
	if (kind == FTW_DNR || kind == FTW_NS)
		return warnx("%s: cannot be read", path), -1;
	if (kind != FTW_D && (kind != FTW_F || !S_ISREG(st->st_mode)))
		return 0; /* links, sockets and the like are left out */
	uthread_sem_wait(&places);
	j = calloc(1, sizeof(*j));
	if (!j)
		err(1, "%s", path);
	j->in = j->out = -1;
	j->from = strdup(path);
	if (asprintf(&j->to, "%s%s%s", to_folder, name,
		     kind == FTW_D ? "" : ".gz") < 0 ||
	    !j->from)
		err(1, "%s", path);
	if (kind == FTW_F && !uthread_scope_create(&jobs, NULL, run_job, j))
		return 0;
	if (kind == FTW_D && at->level && mkdir(j->to, 0777)) {
		warn("%s", j->to);
		kind = FTW_F;
	}
	job_end(j);
	return kind == FTW_D ? 0 : -1;
}

int main(int argc, char **argv)
{
	char *from, *to;
	int walked, error;

	if (argc < 3 || argc > 4)
		errx(2, "usage: compress-folder FROM TO [LEVEL]");
	if (argc == 4) {
		level = argv[3][0] - '0';
		if (strlen(argv[3]) != 1 || level < 1 || level > 9)
			errx(2, "%s: give a level from 1 to 9", argv[3]);
	}
	from = realpath(argv[1], NULL);
	if (!from || open(from, O_DIRECTORY | O_CLOEXEC) < 0)
		err(1, "%s: no folder to read", argv[1]);
	if (mkdir(argv[2], 0777))
		err(1, "%s: cannot be made", argv[2]);
	to = realpath(argv[2], NULL);
	if (!to)
		err(1, "%s", argv[2]);
	from_length = strlen(from);
	if (!strncmp(to, from, from_length) &&
	    (to[from_length] == '/' || from_length == 1)) {
		rmdir(to);
		errx(1, "%s: inside of %s, which would never end", argv[2],
		     argv[1]);
	}
	to_folder = to;
	uthread_scope_init(&jobs, NULL, 0);
	walked = nftw(from, visit, 16, FTW_PHYS);
	error = uthread_scope_leave(&jobs);
	if (walked || error)
		errx(1, "%s: not all was compressed", argv[1]);
	free(from);
	free(to);
	printf("%llu files, %llu bytes to %llu\n", files, bytes_in, bytes_out);
	if (fflush(stdout))
		err(1, "standard output");
	return 0;
}
