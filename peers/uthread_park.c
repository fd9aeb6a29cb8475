/* SPDX-License-Identifier: Apache-2.0 */
/*
 * uthread_park.c - very many uthreads parked at once: what each costs in
 * memory and time, and whether each is really guarded.
 *
 * Memory is what the kernel charges the process for: resident pages and page
 * tables, over what it was with the runtime running and no thread. The guard
 * of a random sample is tried: write(2) from the last byte of the guard must
 * say EFAULT, and from the first byte of the stack must not.
 */
#include <errno.h>
#include <fcntl.h>
#include <unistd.h>

#include "uthread_bench.h"

#define BATCH 256 /* created before they are let run to where they park */
#define SAMPLE 1000 /* guards tried */

struct park {
	uint64_t n;
	bool from_main;
	uthread_attr_t attr;
	uthread_t *threads;
	uthread_sem_t gate;
	uint64_t parked;
	uint64_t before_kb, parked_kb, table_kb;
	uint64_t vmas_before, vmas;
	uint64_t created_ns, woken_ns;
	uint64_t tried, held;
};

/* A line of a /proc file of the form "Name:  number kB". */
static uint64_t proc_kb(const char *path, const char *name)
{
	FILE *f = fopen(path, "re");
	unsigned long long value = 0;
	size_t len = strlen(name);
	char line[256];

	if (!f)
		bench_die("cannot read %s", path);
	while (fgets(line, sizeof(line), f))
		if (!strncmp(line, name, len) && line[len] == ':')
			sscanf(line + len + 1, "%llu", &value);
	fclose(f);
	return value;
}

static uint64_t count_vmas(void)
{
	FILE *f = fopen("/proc/self/maps", "re");
	uint64_t n = 0;
	int c;

	if (!f)
		return 0;
	while ((c = getc(f)) != EOF)
		n += c == '\n';
	fclose(f);
	return n;
}

static void *parker(void *arg)
{
	struct park *p = arg;

	__atomic_fetch_add(&p->parked, 1, __ATOMIC_RELAXED);
	uthread_sem_wait(&p->gate);
	return NULL;
}

static void try_guards(struct park *p)
{
	int fd[2];
	uint64_t i, pick, state = bench_now() | 1;
	size_t bytes;
	void *low;
	char c;

	if (pipe2(fd, O_CLOEXEC))
		bench_die("pipe2: %s", strerror(errno));
	for (i = 0; i < SAMPLE && i < p->n; i++) {
		state ^= state << 13;
		state ^= state >> 7;
		state ^= state << 17;
		pick = state % p->n;
		if (uthread_getstack(p->threads[pick], &low, &bytes))
			continue;
		p->tried++;
		if (write(fd[1], (char *)low - 1, 1) >= 0) {
			if (read(fd[0], &c, 1) != 1)
				break;
			continue; /* the guard let us through */
		}
		if (errno == EFAULT && write(fd[1], low, 1) == 1 &&
		    read(fd[0], &c, 1) == 1)
			p->held++;
	}
	close(fd[0]);
	close(fd[1]);
}

static void *driver(void *arg)
{
	struct park *p = arg;
	uint64_t i, begin;
	int err;

	p->before_kb = proc_kb("/proc/self/status", "VmRSS") +
		       proc_kb("/proc/self/status", "VmPTE");
	p->vmas_before = count_vmas();
	begin = bench_now();
	for (i = 0; i < p->n; i++) {
		err = uthread_create(&p->threads[i], &p->attr, parker, p);
		if (err)
			bench_die("uthread_create of number %llu: %s",
				  (unsigned long long)i, strerror(err));
		if (i % BATCH == BATCH - 1 && !p->from_main)
			uthread_yield();
	}
	while (__atomic_load_n(&p->parked, __ATOMIC_RELAXED) < p->n) {
		if (p->from_main)
			usleep(1000);
		else
			uthread_yield();
	}
	p->created_ns = bench_now() - begin;
	p->table_kb = proc_kb("/proc/self/status", "VmPTE");
	p->parked_kb = proc_kb("/proc/self/status", "VmRSS") + p->table_kb;
	p->vmas = count_vmas();
	try_guards(p);
	begin = bench_now();
	for (i = 0; i < p->n; i++)
		uthread_sem_post(&p->gate);
	for (i = 0; i < p->n; i++)
		uthread_join(p->threads[i], NULL);
	p->woken_ns = bench_now() - begin;
	return NULL;
}

/* As many of the n as four fifths of the free memory will hold. */
static uint64_t fitting(uint64_t n, enum uthread_tls mode)
{
	uint64_t each_kb = mode == UTHREAD_TLS_OWN ? 12 : 6;
	uint64_t room = proc_kb("/proc/meminfo", "MemAvailable") / 5 * 4;

	return n * each_kb > room ? room / each_kb : n;
}

/* Should the estimate be wrong, it is this process that the kernel ends. */
static void offer_to_oom(void)
{
	FILE *f = fopen("/proc/self/oom_score_adj", "we");

	if (f) {
		fputs("1000", f);
		fclose(f);
	}
}

void bench_park(enum uthread_tls mode, uint64_t n, bool from_main)
{
	struct park p = { .n = fitting(n, mode), .from_main = from_main };
	struct uthread_stats s;
	double each;

	offer_to_oom();
	p.threads = malloc(p.n * sizeof(*p.threads));
	if (!p.threads)
		bench_die("no memory");
	/* The program's own: paid before the first number is read. */
	memset(p.threads, 1, p.n * sizeof(*p.threads));
	uthread_sem_init(&p.gate, 0);
	uthread_attr_init(&p.attr);
	uthread_attr_settls(&p.attr, mode);
	if (from_main)
		driver(&p);
	else
		bench_inside(mode, driver, &p);
	uthread_stats(&s, sizeof(s));
	each = (double)p.n;
	bench_result("park", (double)(p.created_ns + p.woken_ns) / each, p.n,
		     ",\"asked\":%llu,\"bytes\":%.1f,\"table_bytes\":%.1f,"
		     "\"create_ns\":%.1f,\"wake_ns\":%.1f,\"guard\":\"%s\","
		     "\"vmas\":%llu,\"guards_tried\":%llu,\"guards_held\":%llu",
		     (unsigned long long)n,
		     (double)(p.parked_kb - p.before_kb) * 1024.0 / each,
		     (double)p.table_kb * 1024.0 / each,
		     (double)p.created_ns / each, (double)p.woken_ns / each,
		     s.guard == 1 ? "madvise" : "mprotect",
		     (unsigned long long)(p.vmas - p.vmas_before),
		     (unsigned long long)p.tried, (unsigned long long)p.held);
	free(p.threads);
	/* Give the memory back in one go; the workers never end. */
	_exit(0);
}
