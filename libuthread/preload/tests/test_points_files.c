/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_points_files.c - cancellation points of calls that nobody stands before: on files,
 * locks of files and messages, and inside of libc's functions (points.h).
 */
#include <mqueue.h>
#include <signal.h>
#include <stdio_ext.h>
#include <sys/ipc.h>
#include <sys/msg.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include "points.h"

static char fifo[64], file[64];

/* ---- a file that nobody has opened at the other end ---- */

static int other_end = -1;

static void nobody(void)
{
	other_end = -1;
}

static void open_it(void)
{
	if (other_end < 0)
		other_end = open(fifo, O_RDWR | O_NONBLOCK);
	CHECK(other_end >= 0);
}

static void close_it(void)
{
	if (other_end >= 0)
		close(other_end);
}

static void opened(int fd)
{
	CHECK(fd >= 0);
	close(fd);
}

static void in_open(void)
{
	opened(open(fifo, O_RDONLY));
}

static void in_open64(void)
{
	opened(open64(fifo, O_WRONLY));
}

static void in_openat(void)
{
	opened(openat(AT_FDCWD, fifo, O_RDONLY));
}

static void in_creat(void)
{
	opened(creat(fifo, 0600));
}

static void in_system(void)
{
	char command[128];

	sprintf(command, "read x <%s", fifo);
	IS(system(command), 0);
}

static void open_and_write(void)
{
	open_it();
	IS(write(other_end, "\n", 1), 1);
}

/* Whom it waited for is gone. */
static void no_child(void)
{
	struct sigaction sa;

	close_it();
	IS(waitpid(-1, NULL, WNOHANG), -1);
	IS(errno, ECHILD);
	sigaction(SIGINT, NULL, &sa);
	CHECK(sa.sa_handler == SIG_DFL);
}

/* ---- a lock of a file ---- */

static int held, wanted;

static void lock(int fd, int how, int type)
{
	struct flock l = { .l_type = (short)type, .l_whence = SEEK_SET };

	IS(fcntl(fd, how, &l), 0);
}

static void a_lock(void)
{
	held = open(file, O_RDWR | O_CREAT, 0600);
	wanted = open(file, O_RDWR);
	lock(held, F_OFD_SETLK, F_WRLCK);
}

static void unlock(void)
{
	lock(held, F_OFD_SETLK, F_UNLCK);
}

/* Nobody else has it, or waits for it. */
static void no_lock(void)
{
	lock(held, F_OFD_SETLKW, F_WRLCK);
	close(wanted);
	close(held);
}

static void in_setlkw(void)
{
	lock(wanted, F_SETLKW, F_WRLCK);
	lock(wanted, F_SETLK, F_UNLCK);
}

static void in_ofd_setlkw(void)
{
	lock(wanted, F_OFD_SETLKW, F_RDLCK);
	lock(wanted, F_OFD_SETLK, F_UNLCK);
}

static void in_lockf(void)
{
	IS(lockf(wanted, F_LOCK, 0), 0);
	IS(lockf(wanted, F_ULOCK, 0), 0);
}

/* ---- messages ---- */

static mqd_t queue;
static struct timespec far;

static void a_queue(void)
{
	struct mq_attr attr = { .mq_maxmsg = 1, .mq_msgsize = 1 };
	char path[64];

	sprintf(path, "/test_points.%d", (int)getpid());
	queue = mq_open(path, O_RDWR | O_CREAT | O_EXCL, 0600, &attr);
	CHECK(queue >= 0);
	mq_unlink(path);
}

static void tell(void)
{
	const struct timespec now = { 0 };

	mq_timedsend(queue, "x", 1, 0, &now);
}

static void hear(void)
{
	const struct timespec now = { 0 };

	mq_timedreceive(queue, &byte, 1, NULL, &now);
}

static void a_full_queue(void)
{
	a_queue();
	tell();
}

static void no_queue(void)
{
	mq_close(queue);
}

static void in_mq_receive(void)
{
	IS(mq_receive(queue, &byte, 1, NULL), 1);
}

static void in_mq_timedreceive(void)
{
	IS(mq_timedreceive(queue, &byte, 1, NULL, &far), 1);
}

static void in_mq_send(void)
{
	IS(mq_send(queue, "x", 1, 0), 0);
}

static void in_mq_timedsend(void)
{
	IS(mq_timedsend(queue, "x", 1, 0, &far), 0);
}

static int sysv;
static struct {
	long type;
	char text[FULL];
} message = { .type = 1 };

static void a_sysv(void)
{
	sysv = msgget(IPC_PRIVATE, 0600);
	CHECK(sysv >= 0);
}

static void tell_sysv(void)
{
	msgsnd(sysv, &message, 1, IPC_NOWAIT);
}

static void hear_sysv(void)
{
	while (msgrcv(sysv, &message, FULL, 0, IPC_NOWAIT) >= 0)
		;
}

static void a_full_sysv(void)
{
	a_sysv();
	while (!msgsnd(sysv, &message, FULL, IPC_NOWAIT))
		;
}

static void no_sysv(void)
{
	msgctl(sysv, IPC_RMID, NULL);
}

static void in_msgrcv(void)
{
	CHECK(msgrcv(sysv, &message, FULL, 0, 0) > 0);
}

static void in_msgsnd(void)
{
	IS(msgsnd(sysv, &message, FULL, 0), 0);
}

/* ---- streams ---- */

static FILE *in, *out;

static void streams(void)
{
	in = fdopen(ends[0], "r");
	out = fdopen(ends[1], "w");
	CHECK(in && out);
}

static void a_stream(void)
{
	a_pipe();
	streams();
}

static void a_full_stream(void)
{
	a_full_pipe();
	streams();
}

/* Another thread may have its lock. */
static void is_free(FILE *f)
{
	IS(ftrylockfile(f), 0);
	funlockfile(f);
}

static void no_stream(void)
{
	char line[8];

	is_free(in);
	is_free(out);
	empty();
	__fpurge(out);
	clearerr(in);
	setvbuf(out, NULL, _IONBF, 0);
	fputs("last\n", out);
	do
		CHECK(fgets(line, sizeof(line), in));
	while (!strstr(line, "last"));
	fclose(in);
	fclose(out);
}

static void in_fgetc(void)
{
	IS(fgetc(in), '\n');
}

static void in_getc_unlocked(void)
{
	IS(getc_unlocked(in), '\n');
}

static void in_fgets(void)
{
	char line[8];

	CHECK(fgets(line, sizeof(line), in) == line);
}

static void in_fread(void)
{
	IS(fread(&byte, 1, 1, in), 1);
}

static void in_getline(void)
{
	static char *line;
	static size_t n;

	IS(getline(&line, &n, in), 1);
}

static void in_fscanf(void)
{
	char word[8];

	fscanf(in, "%7s", word);
}

static void put_word(void)
{
	IS(write(ends[1], "x ", 2), 2);
}

static void in_fputs(void)
{
	int i;

	for (i = 0; i < 4; i++)
		fwrite(block, 1, sizeof(block), out);
}

static void in_fprintf(void)
{
	int i;

	for (i = 0; i < 4; i++)
		fprintf(out, "%4000d", i);
}

static void in_fflush(void)
{
	fputc('x', out);
	fflush(out);
}

/* ---- */

static const struct row rows[] = {
	R(open, nobody, open_it, close_it, 0),
	R(open64, nobody, open_it, close_it, 0),
	R(openat, nobody, open_it, close_it, 0),
	R(creat, nobody, open_it, close_it, 0),
	R(system, nobody, open_and_write, no_child, 0),
	R(setlkw, a_lock, unlock, no_lock, RAW),
	R(ofd_setlkw, a_lock, unlock, no_lock, RAW),
	R(lockf, a_lock, unlock, no_lock, RAW),
	R(mq_receive, a_queue, tell, no_queue, RAW),
	R(mq_timedreceive, a_queue, tell, no_queue, RAW),
	R(mq_send, a_full_queue, hear, no_queue, RAW),
	R(mq_timedsend, a_full_queue, hear, no_queue, RAW),
	R(msgrcv, a_sysv, tell_sysv, no_sysv, RAW),
	R(msgsnd, a_full_sysv, hear_sysv, no_sysv, RAW),
	R(fgetc, a_stream, put_one, no_stream, 0),
	R(getc_unlocked, a_stream, put_one, no_stream, 0),
	R(fgets, a_stream, put_one, no_stream, 0),
	R(fread, a_stream, put_one, no_stream, 0),
	R(getline, a_stream, put_one, no_stream, 0),
	R(fscanf, a_stream, put_word, no_stream, 0),
	R(fputs, a_full_stream, empty, no_stream, 0),
	R(fprintf, a_full_stream, empty, no_stream, 0),
	R(fflush, a_full_stream, empty, no_stream, 0),
};

int main(int argc, char **argv)
{
	char dir[] = "/tmp/test_points.XXXXXX";

	CHECK(mkdtemp(dir));
	sprintf(fifo, "%s/fifo", dir);
	sprintf(file, "%s/file", dir);
	IS(mkfifo(fifo, 0600), 0);
	far = in_ms(CLOCK_REALTIME, 10000000);
	ALL(rows, argc, argv);
	unlink(fifo);
	unlink(file);
	rmdir(dir);
	return 0;
}
