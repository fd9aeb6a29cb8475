/* SPDX-License-Identifier: Apache-2.0 */
/*
 * http-server PORT FOLDER [SECONDS]: an HTTP/1.1 server of a folder's files on
 * 127.0.0.1, with POST /echo. Port 0: any; the first line printed says which.
 * SECONDS (10): how long a request, and each 64 KiB of a reply, may take.
 *
 * What a connection does is here and in http.c; server.c starts and ends them.
 * Files are opened by openat2() beneath the folder: the kernel refuses `..`,
 * symbolic links and absolute paths that lead out of it.
 */
#include <ctype.h>
#include <err.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/openat2.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>
#include <uthread.h>

#include "http.h"

static int root;

static int open_beneath(const char *path)
{
	struct open_how how = { .flags = O_RDONLY | O_CLOEXEC | O_NONBLOCK,
				.resolve = RESOLVE_BENEATH };

	return (int)syscall(SYS_openat2, root, path, &how, sizeof(how));
}

/* %XX becomes its byte, a query is cut off, a folder is its index. */
static void decode(char *path)
{
	char *from = path, *to = path;

	for (path[strcspn(path, "?#")] = '\0'; (*to = *from); to++, from++) {
		if (*from == '%' && isxdigit((unsigned char)from[1]) &&
		    isxdigit((unsigned char)from[2])) {
			sscanf(from + 1, "%2hhx", (unsigned char *)to);
			from += 2;
		}
	}
	if (to[-1] == '/')
		strcpy(to, "index.html"); /* PATH_ROOM has that much left */
}

static bool send_file(struct conn *c, bool head_only)
{
	char chunk[65536];
	struct stat st;

	decode(c->path);
	c->file = open_beneath(c->path + 1);
	if (c->file < 0 && (errno == EMFILE || errno == ENFILE))
		return http_reply(c, "503 Service Unavailable", 0, NULL);
	if (c->file < 0 || fstat(c->file, &st) || !S_ISREG(st.st_mode))
		return http_reply(c, "404 Not Found", 0, NULL);
	if (!http_reply(c, "200 OK", st.st_size, NULL) || head_only)
		return head_only;
	for (ssize_t n, left = st.st_size; left; left -= n) {
		n = uthread_read(c->file, chunk, sizeof(chunk));
		n = n < left ? n : left; /* it grew: as announced */
		if (n <= 0) /* it shrank: the client sees the early end */
			return false;
		if (!http_send(c, chunk, (size_t)n, 0))
			return false;
	}
	return true;
}

static bool answer(struct conn *c)
{
	if (!strcmp(c->method, "POST") && !strcmp(c->path, "/echo"))
		return http_reply(c, "200 OK", (off_t)c->length, c->body);
	if (!strcmp(c->method, "GET") || !strcmp(c->method, "HEAD"))
		return send_file(c, c->method[0] == 'H');
	return http_reply(c, "405 Method Not Allowed", 0, NULL);
}

int main(int argc, char **argv)
{
	int probe;

	if (argc < 3 || argc > 4 || (argc == 4 && atoi(argv[3]) < 1))
		errx(2, "usage: http-server PORT FOLDER [SECONDS]");
	if (argc == 4)
		http_seconds = atoi(argv[3]);
	root = open(argv[2], O_PATH | O_DIRECTORY | O_CLOEXEC);
	if (root < 0)
		err(1, "%s: cannot serve this folder", argv[2]);
	probe = open_beneath(".");
	if (probe < 0)
		err(1, "openat2() does not work here (Linux 5.6 or later)");
	close(probe);
	return server_run(argv[1], answer);
}
