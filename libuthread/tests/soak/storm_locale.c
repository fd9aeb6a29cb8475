/* SPDX-License-Identifier: Apache-2.0 */
/*
 * storm_locale.c - what libc keeps per thread: errno, the locale of
 * uselocale(), the text of strerror(), the state of conversions,
 * of inet_ntoa() and of dlerror().
 */
#include "soak.h"

#include <arpa/inet.h>
#include <dlfcn.h>
#include <locale.h>
#include <netdb.h>
#include <wchar.h>

static locale_t utf8; /* NULL: there is none here */
static char known[64][64];

static void setup(void)
{
	utf8 = newlocale(LC_ALL_MASK, "C.UTF-8", (locale_t)0);
	for (int i = 0; i < 64; i++)
		snprintf(known[i], sizeof(known[i]), "%s", strerror(i));
}

/* The carrier has an errno of its own, and so has each other uthread. */
static void error_numbers(struct soak *s)
{
	int mine = 1000 + (int)soak_random(s, 100000), i;

	errno = mine;
	soak_spin(2000);
	CHECK_EQ(errno, mine);
	for (i = 0; i < 4; i++) {
		CHECK_EQ(close(-1), -1);
		CHECK_EQ(errno, EBADF);
		uthread_yield();
		CHECK_EQ(errno, EBADF);
		CHECK(!fopen("/nonexistent/file", "r"));
		CHECK_EQ(errno, ENOENT);
		soak_spin(500);
		CHECK_EQ(errno, ENOENT);
	}
	h_errno = mine;
	uthread_yield();
	CHECK_EQ(h_errno, mine);
}

static void messages(struct soak *s)
{
	int n = 5000 + (int)soak_random(s, 100000), i = (int)soak_random(s, 64);
	char want[64], sig[64], *text;

	snprintf(want, sizeof(want), "Unknown error %d", n);
	snprintf(sig, sizeof(sig), "Unknown signal %d", n);
	text = strerror(n); /* in a buffer of this thread */
	soak_spin(2000);
	CHECK(!strcmp(text, want));
	CHECK(!strcmp(strerror(i), known[i]));
	text = strsignal(n);
	uthread_yield();
	CHECK(!strcmp(text, sig));
}

/* Two bytes are one character in UTF-8 and two or none in C. */
static void locales(struct soak *s)
{
	static const char text[] = "a\xc3\xa4\xe2\x82\xac";
	locale_t mine, before;
	mbstate_t st = { 0 };
	const char *p = text;
	wchar_t w[8];

	if (!utf8)
		return;
	CHECK(uselocale((locale_t)0) == LC_GLOBAL_LOCALE);
	mine = soak_random(s, 2) ?
		       duplocale(utf8) :
		       newlocale(LC_ALL_MASK, "C.UTF-8", (locale_t)0);
	CHECK(mine);
	before = uselocale(mine);
	CHECK(before == LC_GLOBAL_LOCALE);
	soak_spin(1000);
	CHECK(uselocale((locale_t)0) == mine);
	CHECK_EQ(mbsrtowcs(w, &p, 8, &st), 3);
	CHECK(w[0] == 'a' && w[1] == 0xe4 && w[2] == 0x20ac && !p);
	CHECK(uselocale(LC_GLOBAL_LOCALE) == mine);
	freelocale(mine);
	p = text;
	memset(&st, 0, sizeof(st));
	errno = 0;
	CHECK_EQ(mbsrtowcs(w, &p, 8, &st), -1);
	CHECK_EQ(errno, EILSEQ);
	CHECK(!strcmp(setlocale(LC_ALL, NULL), "C"));
	CHECK(localeconv()->decimal_point[0] == '.');
	/* Some end with a locale still in use: the next on their block must
	 * find the global one (the first check above). */
	if (soak_random(s, 8) == 0)
		CHECK(uselocale(utf8) == LC_GLOBAL_LOCALE);
}

static void end(struct soak *s)
{
	if (utf8 && uselocale((locale_t)0) == utf8)
		return;
	CHECK(uselocale((locale_t)0) == LC_GLOBAL_LOCALE);
	if (utf8)
		CHECK(uselocale(utf8) == LC_GLOBAL_LOCALE);
	(void)s;
}

static void buffers(struct soak *s)
{
	uint32_t number = soak_random(s, ~0u);
	struct in_addr a = { .s_addr = htonl(number) };
	char want[64], name[64], *text;
	const char *said;

	snprintf(want, sizeof(want), "%u.%u.%u.%u", number >> 24,
		 number >> 16 & 255, number >> 8 & 255, number & 255);
	text = inet_ntoa(a);
	soak_spin(1000);
	CHECK(!strcmp(text, want));
	snprintf(name, sizeof(name), "/nonexistent/lib%08x.so", s->tag);
	CHECK(!dlopen(name, RTLD_NOW));
	uthread_yield();
	said = dlerror();
	CHECK(said && strstr(said, name));
	CHECK(!dlerror());
}

static void conversions(struct soak *s)
{
	static const char euro[] = "\xe2\x82\xac";
	locale_t before;
	mbstate_t st = { 0 };
	wchar_t w = 0;

	if (!utf8)
		return;
	before = uselocale(utf8);
	for (int i = 0; i < 2; i++) {
		CHECK_EQ((ssize_t)mbrtowc(&w, euro + i, 1, &st), -2);
		soak_spin(soak_random(s, 500));
	}
	CHECK_EQ(mbrtowc(&w, euro + 2, 1, &st), 1);
	CHECK(w == 0x20ac && mbsinit(&st));
	CHECK(uselocale(before) == utf8);
}

static void round_of_locale(struct soak *s)
{
	error_numbers(s);
	messages(s);
	if (utf8 && uselocale((locale_t)0) == utf8)
		CHECK(uselocale(LC_GLOBAL_LOCALE) == utf8);
	locales(s);
	if (utf8)
		uselocale(LC_GLOBAL_LOCALE);
	conversions(s);
	buffers(s);
}

static void begin(struct soak *s)
{
	(void)s;
	CHECK(uselocale((locale_t)0) == LC_GLOBAL_LOCALE);
	CHECK_EQ(errno, 0);
	CHECK_EQ(h_errno, 0);
	CHECK(!dlerror());
}

STORM(locale, .uthreads = 300, .setup = setup, .begin = begin,
      .round = round_of_locale, .end = end)
