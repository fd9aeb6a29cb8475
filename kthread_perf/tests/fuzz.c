// SPDX-License-Identifier: GPL-2.0-only
/*
 * fuzz.c - rubbish for /proc/kthread_perf, from a seed.
 *
 *   fuzz SEED WRITES
 *
 * Writes to stats and control: random bytes, sentences of control's grammar and
 * JSON, both also spoilt, sizes up to 1 MiB, wrong addresses, odd offsets and
 * vectors; between them reads of all three files at odd places. Runs that it
 * happens to start are stopped now and then, and a timer interrupts whoever
 * waits for one. The same seed gives the same writes.
 *
 * What must hold, or it ends with status 1 and says after which write:
 *
 * - a write takes all or nothing, and refuses with an errno that README knows
 * - what is read has the form that README says, whatever was written
 *
 * The rest is the kernel's log to tell: the script looks there.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/time.h>
#include <sys/uio.h>
#include <unistd.h>

#define FOLDER "/proc/kthread_perf/"
#define HUGE (1 << 20)
#define MOST 4096

enum file { CONTROL, STATS, SAMPLES };

static const char *const paths[] = { FOLDER "control", FOLDER "stats",
				     FOLDER "samples" };
static uint64_t state;
static unsigned long number, taken[2], starts;
static char text[HUGE + 1];
static size_t size;

static uint64_t draw(uint64_t below)
{
	state ^= state << 13;
	state ^= state >> 7;
	state ^= state << 17;
	return below ? state % below : state;
}

static bool one_in(unsigned int n)
{
	return !draw(n);
}

static __attribute__((noreturn, format(printf, 1, 2))) void
fail(const char *format, ...)
{
	va_list list;

	printf("write %lu: ", number);
	va_start(list, format);
	vprintf(format, list);
	va_end(list);
	putchar('\n');
	exit(1);
}

static void put(const char *word)
{
	size_t n = strlen(word);

	if (size + n <= HUGE) {
		memcpy(text + size, word, n);
		size += n;
	}
}

#define PICK(list) ((list)[draw(sizeof(list) / sizeof(*(list)))])

static void put_number(void)
{
	static const char *const edges[] = {
		"0",	     "1",	   "2",
		"4",	     "64",	   "65",
		"99",	     "100",	   "101",
		"1000",	     "1001",	   "16384",
		"32768",     "4096",	   "65536",
		"1000000",   "1000001",	   "1000000000",
		"268435456", "67108864",   "18446744073709551615",
		"-1",	     "0x10",	   "18446744073709551616",
		"1e3",	     "2147483648", "4294967296",
	};
	char number_text[24];

	if (one_in(3)) {
		put(PICK(edges));
		return;
	}
	snprintf(number_text, sizeof(number_text), "%llu",
		 (unsigned long long)draw(1ULL << (one_in(2) ? 3 : draw(34))));
	put(number_text);
}

/* Small enough that most runs end by themselves. */
static void put_start(void)
{
	static const char *const small[] = {
		" work_target=1000 yield_sleep_jiffies=0 sleep_ns=0",
		" steps_a=1 steps_b=1 repeat=1 rounds=1 stream_bytes=16384",
		" scenario=B2 work_target=5000",
		" evict_bytes=0 steps_a=3 steps_b=2 repeat=2 n=9",
	};
	static const char *const ends[] = { " start", " start wait", " stop",
					    " wait", " stop wait" };

	put(PICK(small));
	put(PICK(ends));
}

static void sentence(void)
{
	static const char *const names[] = {
		"thread_count",
		"threads",
		"work_target",
		"iterations",
		"yield_interval",
		"every",
		"sleep_ns",
		"mm",
		"seed",
		"n",
		"cold",
		"steps_a",
		"steps_b",
		"sort_bytes",
		"stream_bytes",
		"evict_bytes",
		"repeat",
		"rounds",
		"cpus",
		"mm_pids",
		"bind_cpu_count",
		"unknown",
		"",
	};
	static const char *const words[] = {
		"probe=scenario",
		"probe=pair-overhead",
		"experiment=pair",
		"probe=interrupt-overhead",
		"scenario=A",
		"scenario=C2",
		"work_mode=yield",
		"work_mode=sched_yield",
		"work_mode=sleep",
		"policy=other",
		"policy=batch",
		"policy=fifo",
		"loop=instrumented",
		"loop=bare",
		"task_a=aes",
		"task_b=deflate",
		"intervention=sleep",
		"cpus=0,1",
		"cpus=0,0",
		"mm=1 mm_pids=1",
		"start",
		"probe=probe=",
	};
	static const char *const probes[] = { "probe=scenario",
					      "probe=pair-overhead",
					      "probe=interrupt-overhead" };
	unsigned int n = draw(4);

	if (one_in(4)) {
		put(PICK(probes));
		put_start();
		return;
	}
	while (n--) {
		if (one_in(2)) {
			put(PICK(words));
		} else {
			put(PICK(names));
			put("=");
			put_number();
		}
		put(one_in(9) ? "\t" : " ");
	}
	if (one_in(4))
		put_start();
	if (one_in(2))
		put("\n");
}

static void json(void)
{
	static const char *const names[] = { "\"throughput_ops\"", "\"a\"",
					     "\"b.c-d_e\"", "\"throughput\"",
					     "\"\\u0041\"" };
	static const char *const values[] = {
		"1",
		"48044031",
		"-0.5e-3",
		"\"text\"",
		"\"\\\"\\\\\\u00e9\"",
		"1e9",
		"\"\"",
		"0",
		"[1]",
		"99999999999999999999",
	};
	unsigned int n = 1 + draw(one_in(20) ? 80 : 3);

	put("{");
	while (n--) {
		char name[32];

		snprintf(name, sizeof(name), "\"m%u\"", n);
		put(one_in(3) ? PICK(names) : name);
		put(one_in(4) ? " : " : ":");
		put(PICK(values));
		put(n ? "," : "}");
	}
}

/* Change, drop, double and cut bytes. */
static void spoil(void)
{
	unsigned int n = 1 + draw(4);

	while (n-- && size) {
		size_t at = draw(size);

		switch (draw(4)) {
		case 0:
			text[at] = (char)draw(256);
			break;
		case 1:
			memmove(text + at, text + at + 1, size - at - 1);
			size--;
			break;
		case 2:
			if (size * 2 <= HUGE) {
				memcpy(text + size, text, size);
				size *= 2;
			}
			break;
		case 3:
			size = at;
			break;
		}
	}
}

static void make(void)
{
	size_t i;

	size = 0;
	switch (draw(8)) {
	case 0:
		size = draw(one_in(2) ? 64 : MOST + 2);
		for (i = 0; i < size; i++)
			text[i] = (char)draw(256);
		break;
	case 1: /* too much, by a byte or by all of it */
		size = one_in(2) ? MOST - 1 + draw(4) : draw(HUGE);
		memset(text, "1 x\0{\"\xff\n"[draw(8)], size);
		break;
	case 2:
	case 3:
		sentence();
		break;
	case 4:
	case 5:
		json();
		break;
	case 6:
		sentence();
		spoil();
		break;
	case 7:
		json();
		spoil();
		break;
	}
}

/* One way to write what was made; what became of it as write(2) says. */
static ssize_t write_it(int fd, size_t *asked)
{
	*asked = size;
	switch (draw(12)) {
	case 0: /* such files have no pwrite() */
		lseek(fd, (off_t)draw(1 << 20), SEEK_SET);
		return one_in(2) ? write(fd, text, size) :
				   pwrite(fd, text, size, 1);
	case 1: {
		size_t half = draw(size + 1);
		struct iovec parts[] = { { text, half },
					 { text + half, size - half } };

		/* proc takes each part as a write of its own: stops after one */
		*asked = 0;
		return writev(fd, parts, 2);
	}
	case 2:
		return write(fd, one_in(2) ? NULL : (void *)~0xfffUL, size);
	default:
		return write(fd, text, size);
	}
}

static bool is_known(int error, enum file file)
{
	switch (error) {
	case EINVAL:
	case EFAULT:
	case ESPIPE:
		return true;
	case EBUSY:
	case EINTR:
	case ENOMEM:
		return file == CONTROL;
	case EIO:
		return file == SAMPLES; /* nothing there takes a write */
	}
	return false;
}

static void one_write(void)
{
	enum file file = one_in(40) ? SAMPLES : one_in(2) ? CONTROL : STATS;
	int fd = open(paths[file], file == SAMPLES ? O_RDWR : O_WRONLY);
	size_t asked;
	ssize_t done;

	if (fd < 0)
		fail("open %s: %s", paths[file], strerror(errno));
	make();
	done = write_it(fd, &asked);
	if (done < 0 && !is_known(errno, file))
		fail("%s refuses with %s", paths[file], strerror(errno));
	if (done > MOST || (done >= 0 && asked && (size_t)done != asked))
		fail("%s took %zd of %zu", paths[file], done, size);
	if (done > 0 && file != SAMPLES) {
		text[size] = 0;
		taken[file]++;
		starts += file == CONTROL && strstr(text, "start");
	}
	close(fd);
}

static size_t read_all(enum file file, char *to, size_t room)
{
	int fd = open(paths[file], O_RDONLY);
	size_t piece = 1 + draw(one_in(3) ? 16 : 8192);
	size_t used = 0;
	ssize_t n;

	if (fd < 0)
		fail("open %s: %s", paths[file], strerror(errno));
	if (one_in(4)) {
		char byte[64];

		if (pread(fd, byte, draw(sizeof(byte)), (off_t)draw(9000)) < 0)
			fail("pread %s: %s", paths[file], strerror(errno));
		if (lseek(fd, (off_t)draw(100000), SEEK_SET) < 0 ||
		    lseek(fd, 0, SEEK_SET))
			fail("lseek %s: %s", paths[file], strerror(errno));
	}
	while (used < room - 1 &&
	       (n = read(fd, to + used,
			 piece < room - 1 - used ? piece : room - 1 - used))) {
		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			fail("read %s: %s", paths[file], strerror(errno));
		used += n;
	}
	to[used] = 0;
	close(fd);
	return used;
}

static void one_read(void)
{
	static char got[HUGE];
	enum file file = (enum file)draw(3);
	size_t n = read_all(file, got, sizeof(got));
	char *line;

	if (!n || n != strlen(got) || got[n - 1] != '\n')
		fail("%s: %zu bytes, not lines of text", paths[file], n);
	if (file == CONTROL && !strstr(got, "\nstate "))
		fail("control has no state");
	if (file == STATS && (strncmp(got, "kthread_perf ", 13) ||
			      !strstr(got, "\n[json]\n{\"version\":") ||
			      strcmp(got + n - 2, "}\n")))
		fail("stats is not a report");
	for (line = file == SAMPLES ? strtok(got, "\n") : NULL; line;
	     line = strtok(NULL, "\n"))
		if (strncmp(line, "{\"kind\":\"", 9) ||
		    line[strlen(line) - 1] != '}')
			fail("samples has the line %.60s", line);
}

static void stop_runs(void)
{
	int fd = open(paths[CONTROL], O_WRONLY);

	/* The timer may interrupt the wait; the run ends all the same. */
	while (fd >= 0 && write(fd, "stop", 4) < 0 && errno == EINTR)
		;
	if (fd >= 0)
		close(fd);
}

static void nothing(int signal)
{
	(void)signal;
}

int main(int argc, char **argv)
{
	/* No SA_RESTART: a write that waits for a run is interrupted. */
	struct sigaction action = { .sa_handler = nothing };
	struct itimerval timer = { { 0, 20000 }, { 0, 20000 } };
	unsigned long writes;

	if (argc != 3) {
		fprintf(stderr, "usage: fuzz SEED WRITES\n");
		return 2;
	}
	state = strtoull(argv[1], NULL, 10) * 0x9e3779b97f4a7c15ULL | 1;
	writes = strtoul(argv[2], NULL, 10);
	sigaction(SIGALRM, &action, NULL);
	setitimer(ITIMER_REAL, &timer, NULL);
	for (number = 1; number <= writes; number++) {
		one_write();
		if (one_in(20))
			one_read();
		if (number % 100 == 0)
			stop_runs();
	}
	stop_runs();
	printf("%lu writes: control took %lu, %lu of them starts, stats %lu\n",
	       writes, taken[CONTROL], starts, taken[STATS]);
	return 0;
}
