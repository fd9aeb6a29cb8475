/* SPDX-License-Identifier: Apache-2.0 */
/*
 * storm_format.c - numbers to text and back. What printf() and strtod() give
 * is compared with what they gave before any uthread existed; both use the
 * malloc, the locale and, for long double, the x87 unit and the rounding mode.
 */
#include "soak.h"

#include <fenv.h>
#include <math.h>

#define VALUES 512
#define TEXT 160

static const int modes[] = { FE_TONEAREST, FE_UPWARD, FE_DOWNWARD,
			     FE_TOWARDZERO };

static struct sample {
	double d;
	long double l;
	char text[4][TEXT]; /* by rounding mode */
} samples[VALUES];

static void print(char text[TEXT], const struct sample *v)
{
	int n = snprintf(text, TEXT, "%.3f %.17g %a %.2Le %La %g", v->d * 1e-3,
			 v->d, v->d, v->l, v->l, v->d);

	CHECK(n > 0 && n < TEXT);
}

static void setup(void)
{
	uint64_t rng = 0x5eed;

	for (int i = 0; i < VALUES; i++) {
		struct sample *v = &samples[i];
		/* From 1e-30 to 1e30, so that "%.3f" stays short. */
		double m = 1 + (double)(test_random(&rng) >> 11) * 0x1p-53;

		v->d = ldexp(m, (int)(test_random(&rng) % 200) - 100);
		if (test_random(&rng) & 1)
			v->d = -v->d;
		v->l = (long double)v->d / 3;
		for (int k = 0; k < 4; k++) {
			CHECK(!fesetround(modes[k]));
			print(v->text[k], v);
		}
		CHECK(!fesetround(FE_TONEAREST));
	}
}

static void scan(const struct sample *v, const char *text)
{
	double rounded, exact, hex, shortest;
	long double ignored, l;
	char *end;

	CHECK_EQ(sscanf(text, "%lf %lf %la %Lf %La %lg", &rounded, &exact, &hex,
			&ignored, &l, &shortest),
		 6);
	CHECK(exact == v->d && hex == v->d && l == v->l);
	exact = strtod(text, &end);
	CHECK(exact == rounded && *end == ' ');
}

static void integers(struct soak *s)
{
	char text[TEXT];
	long long a = (long long)test_random(&s->rng), c;
	unsigned b = soak_random(s, ~0u), d;
	char word[32], back[32];

	snprintf(word, sizeof(word), "w%08x", s->tag);
	CHECK(snprintf(text, sizeof(text), "%lld:%#x:%s:%5.2f", a, b, word,
		       2.5) < TEXT);
	CHECK_EQ(sscanf(text, "%lld:%x:%31[^:]", &c, &d, back), 3);
	CHECK(a == c && b == d && !strcmp(word, back));
}

static void round_of_format(struct soak *s)
{
	int k = (int)soak_random(s, 4), i;
	char text[TEXT];

	for (i = 0; i < 12; i++) {
		const struct sample *v = &samples[soak_random(s, VALUES)];

		/* Only this uthread's: others have theirs meanwhile. */
		CHECK(!fesetround(modes[k]));
		print(text, v);
		CHECK_EQ(fegetround(), modes[k]);
		CHECK(!fesetround(FE_TONEAREST));
		if (strcmp(text, v->text[k]))
			fprintf(stderr, "mode %d: '%s', not '%s'\n", k, text,
				v->text[k]);
		CHECK(!strcmp(text, v->text[k]));
		scan(v, v->text[0]);
	}
	integers(s);
}

STORM(format, .uthreads = 300, .setup = setup, .round = round_of_format)
