// SPDX-License-Identifier: GPL-2.0-only
/*
 * A pthread's result, written to stats as JSON to be shown beside the
 * kthread's.
 *
 * Text from outside that the kernel shows again: so it is parsed strictly, and
 * only what was recognised is shown. It is one flat object of at most 64
 * members, each a number or a string, in at most 4096 bytes of ASCII; names
 * are letters, digits, '_', '.' and '-', and none comes twice. Everything else
 * that JSON has (nesting, lists, true, null, bytes above 127) is refused.
 *
 * What is kept is the checked text and where its members are. A string stays
 * as it was written, escapes and quotes included, so it is valid JSON when it
 * is shown again and cannot break a line or a quote.
 *
 * The parser looks at each byte once, does not recurse, and never reads at or
 * beyond the end it was given.
 *
 * Why a parser in the kernel at all: study 001 writes such an object to stats, and its
 * programs shall find that door. The lab does not use it; it puts the two results side by
 * side itself. So this stays thin, bounded and under the fuzzer (tests/fuzz.c), and
 * learns nothing more. Rejected: `key=value` words, as control has them (the study's
 * programs would have to change), keeping what was written without looking (it is shown
 * again inside of JSON).
 */
#include <linux/ctype.h>
#include <linux/err.h>
#include <linux/kernel.h>
#include <linux/seq_file.h>
#include <linux/slab.h>
#include <linux/string.h>

#include "json.h"
#include "kperf.h"

#define MEMBERS_MAX 64
#define NAME_MAX_BYTES 64

struct member {
	u16 name; /* offset of its first letter */
	u16 name_size;
	u16 value; /* a string's includes its quotes */
	u16 value_size;
};

struct kperf_peer {
	unsigned int count;
	struct member member[MEMBERS_MAX];
	char text[];
};

struct cursor {
	const char *text;
	size_t at;
	size_t size;
};

/* The next byte, or 0 at the end: a text with a zero byte in it is refused. */
static char kperf_peer_peek(const struct cursor *c)
{
	return c->at < c->size ? c->text[c->at] : 0;
}

static bool kperf_peer_take(struct cursor *c, char want)
{
	if (kperf_peer_peek(c) != want)
		return false;
	c->at++;
	return true;
}

static void kperf_peer_skip_space(struct cursor *c)
{
	while (kperf_peer_peek(c) == ' ' || kperf_peer_peek(c) == '\t' ||
	       kperf_peer_peek(c) == '\n' || kperf_peer_peek(c) == '\r')
		c->at++;
}

static bool kperf_peer_take_digits(struct cursor *c)
{
	if (!isdigit(kperf_peer_peek(c)))
		return false;
	while (isdigit(kperf_peer_peek(c)))
		c->at++;
	return true;
}

/* RFC 8259: -? (0 | 1-9 digits) (. digits)? (e [+-]? digits)? */
static bool kperf_peer_take_number(struct cursor *c)
{
	if (kperf_peer_peek(c) == '-')
		c->at++;
	if (!kperf_peer_take(c, '0') && !kperf_peer_take_digits(c))
		return false;
	if (kperf_peer_take(c, '.') && !kperf_peer_take_digits(c))
		return false;
	if (kperf_peer_peek(c) == 'e' || kperf_peer_peek(c) == 'E') {
		c->at++;
		if (kperf_peer_peek(c) == '+' || kperf_peer_peek(c) == '-')
			c->at++;
		return kperf_peer_take_digits(c);
	}
	return true;
}

static bool kperf_peer_take_string(struct cursor *c)
{
	if (!kperf_peer_take(c, '"'))
		return false;
	for (;;) {
		char ch = kperf_peer_peek(c);
		int i;

		/* Also the end, and, char being signed or not, bytes > 127. */
		if (ch < ' ' || ch > '~')
			return false;
		c->at++;
		if (ch == '"')
			return true;
		if (ch != '\\')
			continue;
		ch = kperf_peer_peek(c);
		if (!ch || !strchr("\"\\/bfnrtu", ch))
			return false;
		c->at++;
		for (i = 0; ch == 'u' && i < 4; i++) {
			if (!isxdigit(kperf_peer_peek(c)))
				return false;
			c->at++;
		}
	}
}

static bool kperf_peer_take_name(struct cursor *c, struct member *m)
{
	size_t begin = c->at + 1;
	size_t i;

	if (!kperf_peer_take_string(c))
		return false;
	m->name = begin;
	m->name_size = c->at - 1 - begin;
	if (!m->name_size || m->name_size > NAME_MAX_BYTES)
		return false;
	for (i = begin; i < c->at - 1; i++) {
		char ch = c->text[i];

		if (!isalnum(ch) && ch != '_' && ch != '.' && ch != '-')
			return false;
	}
	return true;
}

static bool kperf_peer_is_known(const struct kperf_peer *peer,
				const struct member *m)
{
	unsigned int i;

	for (i = 0; i < peer->count; i++)
		if (peer->member[i].name_size == m->name_size &&
		    !memcmp(peer->text + peer->member[i].name,
			    peer->text + m->name, m->name_size))
			return true;
	return false;
}

static bool kperf_peer_take_member(struct cursor *c, struct kperf_peer *peer)
{
	struct member *m = &peer->member[peer->count];

	if (peer->count == MEMBERS_MAX)
		return false;
	kperf_peer_skip_space(c);
	if (!kperf_peer_take_name(c, m) || kperf_peer_is_known(peer, m))
		return false;
	kperf_peer_skip_space(c);
	if (!kperf_peer_take(c, ':'))
		return false;
	kperf_peer_skip_space(c);
	m->value = c->at;
	if (kperf_peer_peek(c) == '"' ? !kperf_peer_take_string(c) :
					!kperf_peer_take_number(c))
		return false;
	m->value_size = c->at - m->value;
	peer->count++;
	kperf_peer_skip_space(c);
	return true;
}

static bool kperf_peer_parse_all(struct kperf_peer *peer, size_t size)
{
	struct cursor c = { .text = peer->text, .size = size };

	kperf_peer_skip_space(&c);
	if (!kperf_peer_take(&c, '{'))
		return false;
	do {
		if (!kperf_peer_take_member(&c, peer))
			return false;
	} while (kperf_peer_take(&c, ','));
	if (!kperf_peer_take(&c, '}'))
		return false;
	kperf_peer_skip_space(&c);
	return c.at == size;
}

/**
 * kperf_peer_parse() - take a result
 * @text:	what was written
 * @size:	bytes of it
 *
 * Return: it, for kperf_peer_free(); or an error pointer: -EINVAL if it is
 * anything but what this file says, -ENOMEM.
 */
struct kperf_peer *kperf_peer_parse(const char *text, size_t size)
{
	struct kperf_peer *peer;

	peer = kzalloc(struct_size(peer, text, size), GFP_KERNEL);
	if (!peer)
		return ERR_PTR(-ENOMEM);
	memcpy(peer->text, text, size);
	if (kperf_peer_parse_all(peer, size))
		return peer;
	kfree(peer);
	return ERR_PTR(-EINVAL);
}

/**
 * kperf_peer_free() - forget a result
 * @peer:	may be NULL
 */
void kperf_peer_free(struct kperf_peer *peer)
{
	kfree(peer);
}

/**
 * kperf_peer_show() - print as "pthread.name value" lines
 * @m:		where to
 * @peer:	the result
 */
void kperf_peer_show(struct seq_file *m, const struct kperf_peer *peer)
{
	unsigned int i;

	for (i = 0; i < peer->count; i++) {
		const struct member *e = &peer->member[i];

		seq_printf(m, "pthread.%.*s %.*s\n", e->name_size,
			   peer->text + e->name, e->value_size,
			   peer->text + e->value);
	}
}

/**
 * kperf_peer_json() - print as a JSON object
 * @j:		where to
 * @key:	the member that it is
 * @peer:	the result
 */
void kperf_peer_json(struct kperf_json *j, const char *key,
		     const struct kperf_peer *peer)
{
	unsigned int i;

	kperf_json_open(j, key, '{');
	for (i = 0; i < peer->count; i++) {
		const struct member *e = &peer->member[i];

		kperf_json_checked(j, peer->text + e->name, e->name_size,
				   peer->text + e->value, e->value_size);
	}
	kperf_json_close(j, '}');
}

/**
 * kperf_peer_number() - a member that is a plain natural number
 * @peer:	the result
 * @key:	the member's name
 * @v:		where to put it
 *
 * Return: whether there is one. Digits after a point are cut off.
 */
bool kperf_peer_number(const struct kperf_peer *peer, const char *key, u64 *v)
{
	unsigned int i;

	for (i = 0; i < peer->count; i++) {
		const struct member *e = &peer->member[i];
		const char *p = peer->text + e->value;
		unsigned int n = 0;

		if (strlen(key) != e->name_size ||
		    memcmp(key, peer->text + e->name, e->name_size))
			continue;
		*v = 0;
		while (n < e->value_size && n < 18 && isdigit(p[n]))
			*v = *v * 10 + p[n++] - '0';
		return n && (n == e->value_size || p[n] == '.') &&
		       !memchr(p, 'e', e->value_size) &&
		       !memchr(p, 'E', e->value_size);
	}
	return false;
}
