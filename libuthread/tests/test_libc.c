/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_libc.c - what libc keys to the thread works for uthreads with own
 * TLS: stdio, ctype and locale, the resolver, pthread_getattr_np(), and what
 * goes by the size of the stack.
 */
#include <ctype.h>
#include <glob.h>
#include <langinfo.h>
#include <locale.h>
#include <math.h>
#include <netdb.h>
#include <resolv.h>
#include <wchar.h>
#include <wctype.h>

#include "util.h"

/* ---- stdio ---- */

static FILE *file;
static uthread_sem_t locked = UTHREAD_SEM_INITIALIZER(0);
static uthread_sem_t tried = UTHREAD_SEM_INITIALIZER(0);

static void *holds_file(void *arg)
{
	flockfile(file);
	CHECK(!ftrylockfile(file)); /* recursive for its owner */
	funlockfile(file);
	CHECK_EQ(uthread_sem_post(&locked), 0);
	CHECK_EQ(uthread_sem_wait(&tried), 0);
	funlockfile(file);
	CHECK_EQ(uthread_sem_post(&locked), 0);
	return arg;
}

static void *tries_file(void *arg)
{
	CHECK_EQ(uthread_sem_wait(&locked), 0);
	CHECK(ftrylockfile(file));
	CHECK_EQ(uthread_sem_post(&tried), 0);
	CHECK_EQ(uthread_sem_wait(&locked), 0);
	CHECK(!ftrylockfile(file));
	funlockfile(file);
	return arg;
}

TEST(file_lock_belongs_to_the_uthread)
{
	uthread_t t[2];

	file = tmpfile();
	CHECK(file);
	start_workers(1); /* one kernel thread: only the uthreads differ */
	need_own_tls();
	t[0] = spawn(holds_file, NULL);
	t[1] = spawn(tries_file, NULL);
	joined(t[0]);
	joined(t[1]);
}

static void *holds_file_moving(void *arg)
{
	for (int i = 0; i < 10; i++) {
		flockfile(file);
		migrate();
		fputs("moved ", file);
		funlockfile(file);
	}
	return arg;
}

TEST(file_lock_moves_with_the_uthread)
{
	file = tmpfile();
	CHECK(file);
	start_workers(2);
	need_own_tls();
	in_uthread(holds_file_moving, NULL);
	CHECK(!ftrylockfile(file));
	CHECK_EQ(ftell(file), 60);
}

#define LINES SCALE(1000)

static int next_writer;

static void *writes_lines(void *arg)
{
	int me = add(&next_writer, 1);

	for (int i = 0; i < LINES; i++) {
		CHECK(fprintf(file, "%d %d %.17g %a %s\n", me, i, me + i / 7.0,
			      -i / 3.0, "the end") > 0);
		if (i % 16 == 0)
			uthread_yield();
	}
	return arg;
}

TEST(lines_of_many_uthreads_stay_whole)
{
	int seen[21] = { 0 }, who, i, n = 0;
	char line[256], end[32];
	double d, a;

	file = tmpfile();
	CHECK(file);
	start_workers(4);
	crowd(16, 4, writes_lines, NULL);
	rewind(file);
	while (fgets(line, sizeof(line), file)) {
		CHECK_EQ(sscanf(line, "%d %d %lf %la %31[a-z ]\n", &who, &i, &d,
				&a, end),
			 5);
		CHECK(who >= 1 && who <= 20);
		CHECK_EQ(i, seen[who]++);
		CHECK(d == who + i / 7.0);
		CHECK(a == -i / 3.0);
		CHECK(!strcmp(end, "the end"));
		n++;
	}
	CHECK_EQ(n, 20 * LINES);
}

/* printf() and scanf() are left in the middle, in their callbacks. */
static ssize_t write_and_move(void *cookie, const char *buf, size_t n)
{
	char *to = cookie;

	migrate();
	memcpy(to + strlen(to), buf, n);
	return (ssize_t)n;
}

static ssize_t read_and_move(void *cookie, char *buf, size_t n)
{
	const char **from = cookie;

	if (!**from || !n)
		return 0;
	migrate();
	*buf = *(*from)++;
	return 1;
}

static void *prints_and_scans_moving(void *arg)
{
	static const cookie_io_functions_t io = { .write = write_and_move,
						  .read = read_and_move };
	char text[4096] = "";
	const char *in = "3.25 -1e-3 0x1p-1 inf word 42";
	double d[4];
	char word[16];
	FILE *f;
	int n;

	f = fopencookie(text, "w", io);
	CHECK(f);
	CHECK(!setvbuf(f, NULL, _IONBF, 0));
	CHECK(fprintf(f, "%s %.3f %d %5.1Lf|%'d", "pi", 3.14159, -7, 2.5L,
		      1000) > 0);
	CHECK(!fclose(f));
	CHECK(!strcmp(text, "pi 3.142 -7   2.5|1000"));
	f = fopencookie((void *)&in, "r", io);
	CHECK(f);
	CHECK_EQ(fscanf(f, "%lf %lf %lf %lf %15s %d", &d[0], &d[1], &d[2],
			&d[3], word, &n),
		 6);
	CHECK(!fclose(f));
	CHECK(d[0] == 3.25 && d[1] == -1e-3 && d[2] == 0.5 && isinf(d[3]));
	CHECK(!strcmp(word, "word"));
	CHECK_EQ(n, 42);
	return arg;
}

TEST(printf_and_scanf_survive_migration_inside)
{
	start_workers(3);
	need_own_tls();
	crowd(2, 0, prints_and_scans_moving, NULL);
}

static void *formats_floats(void *arg)
{
	uint64_t seed = (uint64_t)(uintptr_t)&seed | 1;

	for (int i = 0; i < SCALE(2000); i++) {
		double d = (double)test_random(&seed) / 1e9, back = 0;
		char buf[400];

		snprintf(buf, sizeof(buf), "%.17g", d);
		if (i % 8 == 0)
			uthread_yield();
		CHECK_EQ(sscanf(buf, "%lf", &back), 1);
		CHECK(back == d);
		CHECK(strtod(buf, NULL) == d);
		snprintf(buf, sizeof(buf), "%.300f", d);
		CHECK(strlen(buf) > 300);
	}
	return arg;
}

TEST(floats_of_many_uthreads)
{
	start_workers(4);
	crowd(16, 2, formats_floats, NULL);
}

/* ---- ctype and locale ---- */

static void *classifies(void *arg)
{
	int letters = 0, lower = 0;

	for (int ch = 0; ch < 256; ch++) {
		letters += !!isalpha(ch);
		lower += tolower(ch) != ch;
	}
	CHECK_EQ(letters, 52);
	CHECK_EQ(lower, 26);
	CHECK(strcasecmp("LiBuThReAd", "libuthread") == 0);
	return arg;
}

TEST(ctype_works_in_a_new_uthread)
{
	start_workers(2);
	crowd(20, 2, classifies, NULL);
}

static locale_t utf8;

static void *own_locale(void *arg)
{
	CHECK_EQ(MB_CUR_MAX, 1);
	CHECK(!iswalpha(0xe9));
	CHECK(uselocale((locale_t)0) == LC_GLOBAL_LOCALE);
	CHECK(uselocale(utf8) == LC_GLOBAL_LOCALE);
	for (int i = 0; i < 10; i++) {
		wchar_t wide[4] = { 0 };

		CHECK(MB_CUR_MAX > 1);
		CHECK(!strcmp(nl_langinfo(CODESET), "UTF-8"));
		CHECK(iswalpha(0xe9));
		CHECK_EQ(mbstowcs(wide, "\xc3\xa9x", 4), 2);
		CHECK_EQ(wide[0], 0xe9);
		uthread_yield();
		migrate();
		CHECK(uselocale((locale_t)0) == utf8);
	}
	return arg;
}

static void *global_locale(void *arg)
{
	for (int i = 0; i < 200; i++) {
		CHECK_EQ(MB_CUR_MAX, 1);
		CHECK(strcmp(nl_langinfo(CODESET), "UTF-8"));
		uthread_yield();
	}
	return arg;
}

TEST(locale_of_a_uthread_is_its_own)
{
	uthread_t t[20];

	utf8 = newlocale(LC_ALL_MASK, "C.UTF-8", (locale_t)0);
	if (!utf8)
		SKIP("no C.UTF-8 here");
	start_workers(2);
	need_own_tls();
	for (int round = 0; round < 3; round++) {
		for (int i = 0; i < 20; i++)
			t[i] = spawn(i % 5 ? global_locale : own_locale, NULL);
		for (int i = 0; i < 20; i++)
			joined(t[i]);
	}
	CHECK_EQ(MB_CUR_MAX, 1);
	freelocale(utf8); /* nobody uses it any more */
	in_uthread(global_locale, NULL);
}

static void *global_is_utf8(void *arg)
{
	CHECK(MB_CUR_MAX > 1);
	CHECK(iswalpha(0xe9));
	return arg;
}

TEST(new_uthreads_follow_setlocale)
{
	start_workers(1);
	in_uthread(global_locale, NULL);
	if (!setlocale(LC_ALL, "C.UTF-8"))
		SKIP("no C.UTF-8 here");
	in_uthread(global_is_utf8, NULL); /* on a block made before */
	CHECK(setlocale(LC_ALL, "C"));
	in_uthread(global_locale, NULL);
}

static void *messages(void *arg)
{
	for (int e = 0; e < 140; e++) {
		char buf[64];

		CHECK(strlen(strerror(e)));
		CHECK(strerror_r(e, buf, sizeof(buf)));
	}
	CHECK(strstr(strerror(12345), "12345"));
	CHECK(strlen(strsignal(SIGSEGV)));
	return arg;
}

TEST(messages_of_errors)
{
	start_workers(2);
	crowd(20, 2, messages, NULL);
}

/* ---- the resolver ---- */

static int resolve(const char *name, int flags, uint32_t *address)
{
	struct addrinfo hints = { .ai_family = AF_INET,
				  .ai_socktype = SOCK_STREAM,
				  .ai_flags = flags },
			*list = NULL;
	int err = getaddrinfo(name, "80", &hints, &list);

	if (!err) {
		CHECK_EQ(list->ai_addrlen, sizeof(struct sockaddr_in));
		memcpy(address,
		       &((struct sockaddr_in *)(void *)list->ai_addr)->sin_addr,
		       sizeof(*address));
		freeaddrinfo(list);
	}
	return err;
}

static void *resolves(void *arg)
{
	uint32_t want = htonl(INADDR_LOOPBACK), got;

	for (int i = 0; i < SCALE(50); i++) {
		got = 0;
		CHECK_EQ(resolve("127.0.0.1", AI_NUMERICHOST, &got), 0);
		CHECK_EQ(got, want);
		got = 0;
		CHECK_EQ(resolve("localhost", 0, &got), 0);
		CHECK_EQ(ntohl(got) >> 24, 127);
		CHECK_EQ(resolve("1.2.3.4.5", AI_NUMERICHOST, &got),
			 EAI_NONAME);
		uthread_yield();
	}
	return arg;
}

TEST(getaddrinfo_of_localhost)
{
	uint32_t got;

	if (resolve("localhost", 0, &got))
		SKIP("localhost has no address here");
	start_workers(3);
	crowd(12, 2, resolves, NULL);
	crowd(12, 2, resolves, NULL); /* on used blocks */
}

static void *resolver_state(void *arg)
{
	struct __res_state *mine = &_res;

	CHECK(mine != arg);
	CHECK(!res_init());
	mine->retry = (int)uthread_id(uthread_self()) % 7 + 1;
	uthread_sleep(1000);
	CHECK(&_res == mine);
	CHECK_EQ(mine->retry, (int)uthread_id(uthread_self()) % 7 + 1);
	return arg;
}

TEST(resolver_state_is_the_uthreads)
{
	start_workers(2);
	need_own_tls();
	crowd(20, 0, resolver_state, &_res);
}

/* ---- pthread_getattr_np ---- */

static void check_stack(pthread_t who, uthread_t ut)
{
	pthread_attr_t a;
	void *low, *want_low;
	size_t bytes, want_bytes, guard = 0;

	CHECK(!pthread_getattr_np(who, &a));
	CHECK(!pthread_attr_getstack(&a, &low, &bytes));
	CHECK(!pthread_attr_getguardsize(&a, &guard));
	CHECK(guard > 0);
	CHECK(!pthread_attr_destroy(&a));
	CHECK_EQ(uthread_getstack(ut, &want_low, &want_bytes), 0);
	CHECK(low == want_low);
	CHECK_EQ(bytes, want_bytes);
}

static void check_real_stack(void)
{
	char here, *low;
	pthread_attr_t a;
	size_t bytes;

	CHECK(!pthread_getattr_np(pthread_self(), &a));
	CHECK(!pthread_attr_getstack(&a, (void **)&low, &bytes));
	CHECK(TEST_ASAN || (&here > low && &here < low + bytes));
	CHECK(!pthread_attr_destroy(&a));
}

static void *stack_in_a_pthread(void *arg)
{
	check_real_stack();
	return arg;
}

static pthread_t parked_self;

static void *stack_in_a_uthread(void *arg)
{
	check_real_stack();
	check_stack(pthread_self(), uthread_self());
	store(&parked_self, pthread_self());
	CHECK_EQ(uthread_sem_wait(&tried), 0);
	return arg;
}

static void *stack_of_another(void *other)
{
	check_stack(load(&parked_self), other);
	check_stack(pthread_self(), uthread_self());
	return NULL;
}

TEST(getattr_np_gives_the_uthreads_stack)
{
	uthread_t t;

	check_real_stack(); /* before the runtime has started */
	start_workers(2);
	need_own_tls();
	t = spawn(stack_in_a_uthread, NULL);
	while (!load(&parked_self))
		usleep(100);
	check_stack(load(&parked_self), t);
	check_real_stack();
	in_uthread(stack_of_another, t);
	in_pthread(stack_in_a_pthread, NULL);
	CHECK_EQ(uthread_sem_post(&tried), 0);
	joined(t);
}

/* ---- the size of the stack ---- */

/* By it libc decides whether the path goes on the stack, several times over.
 * Short ones do on every stack: where the smallest of pthreads' is 128 KiB
 * those of 32 KiB. */
static char *long_pattern(size_t bytes)
{
	char *s = malloc(bytes + sizeof("/b*"));

	CHECK(s);
	memset(s, 'a', bytes);
	strcpy(s + bytes, "/b*");
	return s;
}

static void *globs(void *pattern)
{
	glob_t g = { 0 };

	CHECK_EQ(glob(pattern, 0, NULL, &g), GLOB_NOMATCH);
	globfree(&g);
	free(pattern);
	return NULL;
}

static void glob_in_a_pthread(size_t stack, size_t bytes)
{
	pthread_attr_t a;
	pthread_t t;

	CHECK(!pthread_attr_init(&a));
	if (pthread_attr_setstacksize(&a, stack))
		return; /* none that small */
	CHECK(!pthread_create(&t, &a, globs, long_pattern(bytes)));
	CHECK(!pthread_join(t, NULL));
}

static void glob_in_a_uthread(size_t stack, size_t bytes)
{
	uthread_attr_t a;

	CHECK_EQ(uthread_attr_init(&a), 0);
	CHECK_EQ(uthread_attr_setstacksize(&a, stack), 0);
	joined(spawn_attr(&a, globs, long_pattern(bytes)));
}

TEST(long_pattern_leaves_a_small_stack_whole)
{
	start_workers(2);
	need_own_tls();
	for (int i = 0; i < 2; i++) { /* the second time from the pool */
		for (size_t n = 33000; n < 64000; n += 6000) {
			glob_in_a_pthread(64 << 10, n);
			glob_in_a_uthread(64 << 10, n);
		}
		if (sysconf(_SC_THREAD_STACK_MIN) > 64 << 10)
			continue;
		for (size_t n = 1000; n < 64000; n += 1000)
			glob_in_a_uthread(16 << 10, n);
		glob_in_a_pthread(16 << 10, 30000);
	}
}

TEST_MAIN()
