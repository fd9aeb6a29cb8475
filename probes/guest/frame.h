/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Frames on a serial line, and the little JSON that is in them.
 *
 *     @@SWTCH <seq> <length> <crc32hex> <json>\n
 *
 * <length> counts the bytes of <json>; the CRC-32 is over "<seq> <length> "
 * and <json>. On arm64 the line is also the kernel's console: whatever is
 * between frames is noise, and a frame that noise fell into fails its CRC and
 * is asked for again by the host.
 *
 * Requests are flat objects of integers and of strings without escapes (text
 * goes as base64), so reading one takes a search for its key and no library.
 */
#ifndef SWTCH_GUEST_FRAME_H
#define SWTCH_GUEST_FRAME_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define FRAME_JSON_MAX 8192
#define FRAME_CHUNK 3000

struct frame_reader {
	int fd;
	size_t used;
	char buffer[2 * FRAME_JSON_MAX];
};

/* Raw mode: no echo, no line editing, no translation of line ends. */
int frame_open(const char *path);

/* Sends one frame; the format makes its JSON, at most FRAME_JSON_MAX bytes. */
void frame_send(int fd, const char *format, ...)
	__attribute__((format(printf, 2, 3)));

/* Sends @size bytes as frames of FRAME_CHUNK; returns how many. */
unsigned int frame_send_data(int fd, long id, const char *what,
			     const unsigned char *data, size_t size);

/*
 * Reads what has come and gives the next whole frame's JSON in @json (ended by
 * a NUL); false when there is none yet. Call again until false.
 */
bool frame_next(struct frame_reader *reader, char *json);
void frame_fill(struct frame_reader *reader);

/* A member of a flat object. Absent: @missing, or NULL. */
long json_integer(const char *json, const char *key, long missing);
/* Base64 member, decoded, with a NUL after it; the caller frees it. */
unsigned char *json_data(const char *json, const char *key, size_t *size);
/* Copies a plain string; false when absent or too long. */
bool json_string(const char *json, const char *key, char *text, size_t size);

#endif
