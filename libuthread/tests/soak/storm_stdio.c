/* SPDX-License-Identifier: Apache-2.0 */
/*
 * storm_stdio.c - stdio. Every uthread appends lines to one shared file; when
 * the file has grown its contents are read back: every line whole, and those
 * of each uthread complete and in order. Another file is read by all: each of
 * its lines comes to exactly one of them. Streams of a uthread's own are
 * memory, pipes and temporary files.
 */
#include "soak.h"

#define APPEND_MAX (1 << 20)
#define READ_LINES 2000
#define TAGS 8192

static FILE *log_file, *reader;

/* Guarded by log_file's own lock. */
static struct {
	uint32_t tag, written, seen;
} tags[TAGS];
static uint64_t log_bytes, verified;
static unsigned ntags;

/* Guarded by reader's own lock. */
static unsigned line_no, line_sum;

static uint32_t checksum(uint32_t tag, uint32_t seq)
{
	return (tag * 2654435761u) ^ (seq * 40503u + 7);
}

static unsigned tag_slot(uint32_t tag)
{
	unsigned i = tag * 2654435761u % TAGS;

	while (tags[i].tag && tags[i].tag != tag)
		i = (i + 1) % TAGS;
	return i;
}

/* With log_file locked: all that was written is there, once. */
static void verify(void)
{
	char line[128], want[128];
	unsigned tag, seq, sum, slot, i;
	FILE *f;

	CHECK(!fflush_unlocked(log_file));
	f = fdopen(dup(fileno(log_file)), "r");
	CHECK(f);
	rewind(f);
	while (fgets(line, sizeof(line), f)) {
		CHECK_EQ(sscanf(line, "%x %u %x", &tag, &seq, &sum), 3);
		snprintf(want, sizeof(want), "%08x %u %08x\n", tag, seq,
			 checksum(tag, seq));
		if (strcmp(line, want))
			fprintf(stderr, "line '%s', not '%s'\n", line, want);
		CHECK(!strcmp(line, want));
		slot = tag_slot(tag);
		CHECK_EQ(tags[slot].tag, tag);
		CHECK_EQ(tags[slot].seen, seq);
		tags[slot].seen++;
		verified++;
	}
	CHECK(feof(f) && !ferror(f));
	fclose(f);
	for (i = 0; i < TAGS; i++)
		CHECK_EQ(tags[i].seen, tags[i].written);
	memset(tags, 0, sizeof(tags));
	ntags = 0;
	rewind(log_file);
	CHECK(!ftruncate(fileno(log_file), 0));
	log_bytes = 0;
}

static void append(struct soak *s)
{
	unsigned slot;
	uint32_t seq;
	int n;

	flockfile(log_file);
	slot = tag_slot(s->tag);
	ntags += !tags[slot].tag;
	tags[slot].tag = s->tag;
	seq = tags[slot].written++;
	n = fprintf(log_file, "%08x %u ", s->tag, seq);
	CHECK(n > 0);
	/* The lock is recursive: these two are one line all the same. */
	soak_spin(soak_random(s, 500));
	CHECK_EQ(fprintf(log_file, "%08x\n", checksum(s->tag, seq)), 9);
	log_bytes += (unsigned)n + 9;
	if (log_bytes > APPEND_MAX || ntags > TAGS / 2)
		verify();
	funlockfile(log_file);
}

static void read_on(void)
{
	char line[64];
	unsigned n;

	flockfile(reader);
	if (fgets(line, sizeof(line), reader)) {
		CHECK_EQ(sscanf(line, "line %u", &n), 1);
		CHECK_EQ(n, line_no);
		line_no++;
		line_sum += n;
	} else {
		CHECK(feof(reader) && !ferror(reader));
		CHECK_EQ(line_no, READ_LINES);
		CHECK_EQ(line_sum, READ_LINES * (READ_LINES - 1) / 2);
		rewind(reader);
		line_no = line_sum = 0;
	}
	funlockfile(reader);
}

static void memory_stream(struct soak *s)
{
	unsigned n = 1 + soak_random(s, 200), i, got;
	char *text = NULL, word[16], back[16];
	size_t bytes = 0;
	FILE *f = open_memstream(&text, &bytes);

	CHECK(f);
	for (i = 0; i < n; i++)
		CHECK(fprintf(f, "%u-%08x\n", i, s->tag) > 0);
	CHECK(!fclose(f));
	f = fmemopen(text, bytes, "r");
	CHECK(f);
	snprintf(word, sizeof(word), "%08x", s->tag);
	for (i = 0; i < n; i++) {
		CHECK_EQ(fscanf(f, "%u-%15s", &got, back), 2);
		CHECK_EQ(got, i);
		CHECK(!strcmp(word, back));
	}
	CHECK_EQ(fscanf(f, "%u", &got), EOF);
	CHECK(!fclose(f));
	free(text);
}

static void file_of_its_own(struct soak *s)
{
	unsigned n = 50 + soak_random(s, 2000), i;
	uint32_t x = s->tag, y;
	FILE *f = tmpfile();

	CHECK(f);
	if (soak_random(s, 2))
		CHECK(!setvbuf(f, NULL, _IOFBF, 64 + soak_random(s, 500)));
	for (i = 0; i < n; i++) {
		x = x * 1664525 + 1013904223;
		CHECK_EQ(fwrite(&x, sizeof(x), 1, f), 1);
	}
	CHECK_EQ(ftell(f), (long)(n * sizeof(x)));
	rewind(f);
	for (i = 0, x = s->tag; i < n; i++) {
		x = x * 1664525 + 1013904223;
		CHECK_EQ(fread(&y, sizeof(y), 1, f), 1);
		CHECK_EQ(x, y);
	}
	CHECK_EQ(getc(f), EOF);
	CHECK(!fclose(f));
}

static void setup(void)
{
	log_file = tmpfile();
	reader = tmpfile();
	CHECK(log_file && reader);
	for (unsigned i = 0; i < READ_LINES; i++)
		fprintf(reader, "line %u\n", i);
	rewind(reader);
}

static void round_of_stdio(struct soak *s)
{
	for (int i = 0; i < 8; i++) {
		append(s);
		read_on();
	}
	memory_stream(s);
	if (soak_random(s, 4) == 0)
		file_of_its_own(s);
}

static void finish(void)
{
	flockfile(log_file);
	verify();
	funlockfile(log_file);
	CHECK(verified);
}

STORM(stdio, .uthreads = 200, .setup = setup, .round = round_of_stdio,
      .finish = finish)
