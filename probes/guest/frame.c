// SPDX-License-Identifier: Apache-2.0
/*
 * Frames on a serial line; frame.h has the format.
 *
 * Invariants: a frame is written with one lock-free sequence of write() calls
 * and nobody else in the guest's user space writes to the line; the reader
 * never holds back a whole frame because of rubbish before it.
 */
#include "frame.h"

#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <termios.h>
#include <unistd.h>

#define MARK "@@SWTCH "
#define MARK_SIZE (sizeof(MARK) - 1)
#define HEAD_MAX 48

static const char digits[] =
	"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

static uint32_t crc32_add(uint32_t crc, const void *data, size_t size)
{
	const unsigned char *byte = data;

	crc = ~crc;
	while (size--) {
		crc ^= *byte++;
		for (int bit = 0; bit < 8; bit++)
			crc = crc >> 1 ^ (0xedb88320u & -(crc & 1));
	}
	return ~crc;
}

int frame_open(const char *path)
{
	struct termios mode;
	int fd = open(path, O_RDWR | O_NOCTTY | O_CLOEXEC);

	if (fd < 0)
		return -1;
	/* A port behind which there is no hardware can be opened, and no more. */
	if (tcgetattr(fd, &mode) && errno == EIO) {
		close(fd);
		errno = EIO;
		return -1;
	}
	if (tcgetattr(fd, &mode) == 0) {
		cfmakeraw(&mode);
		cfsetspeed(&mode, B115200);
		mode.c_cflag |= CLOCAL | CREAD;
		tcsetattr(fd, TCSANOW, &mode);
	}
	return fd;
}

static void write_all(int fd, const char *data, size_t size)
{
	while (size) {
		ssize_t put = write(fd, data, size);

		if (put < 0 && errno != EINTR)
			return;
		if (put > 0) {
			data += put;
			size -= put;
		}
	}
}

void frame_send(int fd, const char *format, ...)
{
	static unsigned long seq;
	static char json[FRAME_JSON_MAX + 1];
	static char line[HEAD_MAX + FRAME_JSON_MAX + 2];
	char head[HEAD_MAX];
	va_list arguments;
	uint32_t crc;
	int size, used;

	va_start(arguments, format);
	size = vsnprintf(json, sizeof(json), format, arguments);
	va_end(arguments);
	if (size < 0 || size > FRAME_JSON_MAX)
		return;
	used = snprintf(head, sizeof(head), "%lu %d ", seq++, size);
	crc = crc32_add(0, head, used);
	crc = crc32_add(crc, json, size);
	/* A line of its own, so that noise before it ends with its line. */
	used = snprintf(line, sizeof(line), "\n" MARK "%s%08x %s\n", head, crc,
			json);
	write_all(fd, line, used);
}

static void encode(const unsigned char *data, size_t size, char *text)
{
	for (; size; size -= size < 3 ? size : 3, data += 3) {
		uint32_t bits = (uint32_t)data[0] << 16;

		if (size > 1)
			bits |= (uint32_t)data[1] << 8;
		if (size > 2)
			bits |= data[2];
		*text++ = digits[bits >> 18];
		*text++ = digits[bits >> 12 & 63];
		*text++ = size > 1 ? digits[bits >> 6 & 63] : '=';
		*text++ = size > 2 ? digits[bits & 63] : '=';
	}
	*text = 0;
}

unsigned int frame_send_data(int fd, long id, const char *what,
			     const unsigned char *data, size_t size)
{
	static char text[FRAME_CHUNK / 3 * 4 + 8];
	unsigned int part = 0;

	for (size_t at = 0; at < size; at += FRAME_CHUNK, part++) {
		size_t take = size - at < FRAME_CHUNK ? size - at : FRAME_CHUNK;

		encode(data + at, take, text);
		frame_send(fd,
			   "{\"op\":\"chunk\",\"id\":%ld,\"of\":\"%s\","
			   "\"part\":%u,\"data\":\"%s\"}",
			   id, what, part, text);
	}
	return part;
}

void frame_fill(struct frame_reader *reader)
{
	ssize_t got;

	/* Only rubbish can fill the buffer: a frame is half its size. */
	if (reader->used == sizeof(reader->buffer))
		reader->used = 0;
	got = read(reader->fd, reader->buffer + reader->used,
		   sizeof(reader->buffer) - reader->used);
	if (got > 0)
		reader->used += got;
}

static void drop(struct frame_reader *reader, size_t size)
{
	memmove(reader->buffer, reader->buffer + size, reader->used - size);
	reader->used -= size;
}

/*
 * The frame at the buffer's start: its whole size, 0 when more must come, -1
 * when it is none.
 */
static ssize_t frame_size(struct frame_reader *reader, char *json)
{
	char head[HEAD_MAX + 1];
	char counted[HEAD_MAX];
	unsigned long seq, length;
	unsigned int told;
	int begin = 0, used;
	size_t available = reader->used - MARK_SIZE;
	size_t take = available < HEAD_MAX ? available : HEAD_MAX;
	uint32_t crc;

	memcpy(head, reader->buffer + MARK_SIZE, take);
	head[take] = 0;
	if (sscanf(head, "%10lu %5lu %8x%n", &seq, &length, &told, &begin) !=
		    3 ||
	    !begin || head[begin] != ' ' || length > FRAME_JSON_MAX)
		return available < HEAD_MAX && !strchr(head, '\n') ? 0 : -1;
	begin++;
	if (available < begin + length)
		return 0;
	used = snprintf(counted, sizeof(counted), "%lu %lu ", seq, length);
	crc = crc32_add(0, counted, used);
	memcpy(json, reader->buffer + MARK_SIZE + begin, length);
	json[length] = 0;
	if (crc32_add(crc, json, length) != told)
		return -1;
	return MARK_SIZE + begin + length;
}

bool frame_next(struct frame_reader *reader, char *json)
{
	while (reader->used) {
		char *mark =
			memmem(reader->buffer, reader->used, MARK, MARK_SIZE);
		ssize_t size;

		if (!mark) {
			/* The mark's beginning may be at the end. */
			if (reader->used > MARK_SIZE)
				drop(reader, reader->used - MARK_SIZE);
			return false;
		}
		drop(reader, mark - reader->buffer);
		size = frame_size(reader, json);
		if (size == 0)
			return false;
		drop(reader, size < 0 ? 1 : (size_t)size);
		if (size > 0)
			return true;
	}
	return false;
}

/* The value of @key, or NULL. Strings of requests hold no quote. */
static const char *find(const char *json, const char *key)
{
	char quoted[64];
	const char *at;

	snprintf(quoted, sizeof(quoted), "\"%s\":", key);
	at = strstr(json, quoted);
	return at ? at + strlen(quoted) : NULL;
}

long json_integer(const char *json, const char *key, long missing)
{
	const char *at = find(json, key);
	char *end;
	long number;

	if (!at)
		return missing;
	number = strtol(at, &end, 10);
	return end == at ? missing : number;
}

bool json_string(const char *json, const char *key, char *text, size_t size)
{
	const char *at = find(json, key);
	const char *end = at && *at == '"' ? strchr(at + 1, '"') : NULL;

	if (!end || (size_t)(end - at) > size)
		return false;
	memcpy(text, at + 1, end - at - 1);
	text[end - at - 1] = 0;
	return true;
}

unsigned char *json_data(const char *json, const char *key, size_t *size)
{
	const char *at = find(json, key);
	unsigned char *data, *out;
	uint32_t bits = 0;
	int have = 0;

	if (!at || *at != '"')
		return NULL;
	at++;
	data = malloc(strlen(at) + 1);
	if (!data)
		return NULL;
	out = data;
	for (; *at && *at != '"' && *at != '='; at++) {
		const char *digit = strchr(digits, *at);

		if (!digit)
			break;
		bits = bits << 6 | (uint32_t)(digit - digits);
		have += 6;
		if (have >= 8) {
			have -= 8;
			*out++ = bits >> have;
		}
	}
	*out = 0;
	*size = out - data;
	return data;
}
