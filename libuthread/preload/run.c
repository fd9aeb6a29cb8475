/* SPDX-License-Identifier: Apache-2.0 */
/*
 * run.c - uthread-run: start a program that was compiled for pthreads with
 * libuthread-pthread.so before its libraries, so that its threads are uthreads.
 *
 * It only sets the environment and becomes the program, after a look at what would
 * make that useless: the loader ignores LD_PRELOAD for programs with others' rights,
 * and a static program has no loader. Scripts are what their interpreter is.
 *
 * Exit codes: the program's; as a shell's 126, it cannot be run, or not so, and 127,
 * it is not there; 2, the command line is wrong.
 */
#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
#include <limits.h>
#include <link.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/xattr.h>
#include <unistd.h>

#define LIBRARY "libuthread-pthread.so"
#define SCRIPTS_MAX \
	4 /* interpreters that are scripts themselves, as the kernel */

enum {
	USAGE = 2,
	CANNOT = 126,
	NOT_FOUND = 127,
};

/* One line, whatever is in the names. */
static __attribute__((noreturn, format(printf, 2, 3))) void
die(int code, const char *fmt, ...)
{
	char *said = NULL, *p;
	va_list ap;

	va_start(ap, fmt);
	if (vasprintf(&said, fmt, ap) < 0)
		exit(code);
	va_end(ap);
	for (p = said; *p; p++)
		if ((unsigned char)*p < ' ' || *p == 0x7f)
			*p = '?';
	fprintf(stderr, "uthread-run: %s\n", said);
	exit(code);
}

/* ---- the program ---- */

static bool is_file(const char *path)
{
	struct stat st;

	return !stat(path, &st) && S_ISREG(st.st_mode);
}

/* As execvp() would find it. */
static void find_program(const char *name, char path[PATH_MAX])
{
	const char *p = getenv("PATH"), *end;

	if (strchr(name, '/')) {
		if (snprintf(path, PATH_MAX, "%s", name) >= PATH_MAX)
			die(CANNOT, "%s: the name is too long", name);
		if (!is_file(path))
			die(NOT_FOUND, "%s: no such program", name);
		return;
	}
	for (p = p ? p : "/bin:/usr/bin";; p = end + 1) {
		end = strchrnul(p, ':');
		if (snprintf(path, PATH_MAX, "%.*s%s%s", (int)(end - p), p,
			     end > p ? "/" : "", name) < PATH_MAX &&
		    is_file(path) && !access(path, X_OK))
			return;
		if (!*end)
			die(NOT_FOUND, "%s: no such program in PATH", name);
	}
}

static void check_rights(const char *path)
{
	struct stat st;

	if (access(path, X_OK))
		die(CANNOT, "%s: %s", path, strerror(errno));
	if (stat(path, &st))
		die(CANNOT, "%s: %s", path, strerror(errno));
	if (st.st_mode & (S_ISUID | S_ISGID) ||
	    getxattr(path, "security.capability", NULL, 0) > 0)
		die(CANNOT,
		    "%s runs with others' rights (setuid, setgid or capabilities), and such programs load no other libraries: run a copy without them",
		    path);
}

/* The kernel reads as much. False: it is no script. */
static bool interpreter(const char *head, size_t n, char path[PATH_MAX])
{
	const char *p = head + 2, *end = head + n;
	size_t len = 0;

	if (n < 2 || head[0] != '#' || head[1] != '!')
		return false;
	while (p < end && (*p == ' ' || *p == '\t'))
		p++;
	while (p + len < end && !strchr(" \t\n\r", p[len]))
		len++;
	memcpy(path, p, len);
	path[len] = 0;
	return true;
}

/* Another C library's would look in vain for what is glibc's. What glibc's is called nobody
 * knows: a program may be linked with one that lies elsewhere, by any name. */
static void check_loader(const char *path, int fd, const ElfW(Phdr) *ph)
{
	static const char *const others[] = { "ld-musl", "ld-uClibc",
					      "ld64-uClibc", "linker64" };
	char loader[PATH_MAX], *slash, *name;
	ssize_t n;
	size_t i;

	n = pread(fd, loader,
		  ph->p_filesz < PATH_MAX ? ph->p_filesz : PATH_MAX - 1,
		  (off_t)ph->p_offset);
	if (n <= 0)
		return; /* execvp() will say what is wrong */
	loader[n] = 0;
	slash = strrchr(loader, '/');
	name = slash ? slash + 1 : loader;
	for (i = 0; i < sizeof(others) / sizeof(*others); i++)
		if (!strncmp(name, others[i], strlen(others[i])))
			die(CANNOT,
			    "%s is made for another C library than glibc (its loader is %s)",
			    path, loader);
}

static void check_elf(const char *path, int fd, const ElfW(Ehdr) *eh)
{
	static const int here =
#if defined(__x86_64__)
		EM_X86_64;
#else
		EM_AARCH64;
#endif
	ElfW(Phdr) ph;
	size_t i;

	if (eh->e_ident[EI_CLASS] != ELFCLASS64 || eh->e_machine != here)
		die(CANNOT, "%s is a program for another processor", path);
	for (i = 0; i < eh->e_phnum; i++) {
		if (pread(fd, &ph, sizeof(ph),
			  (off_t)(eh->e_phoff + i * eh->e_phentsize)) !=
		    sizeof(ph))
			break;
		if (ph.p_type == PT_INTERP) {
			check_loader(path, fd, &ph);
			return;
		}
	}
	die(CANNOT,
	    "%s is linked statically, so its threads cannot be replaced: link it with shared libraries",
	    path);
}

static void check_program(const char *name)
{
	char path[PATH_MAX];
	union {
		ElfW(Ehdr) eh;
		char head[256];
	} u;
	ssize_t n;
	int fd, i;

	find_program(name, path);
	for (i = 0; i <= SCRIPTS_MAX; i++) {
		check_rights(path);
		fd = open(path, O_RDONLY | O_CLOEXEC);
		if (fd < 0)
			return; /* not to be read, perhaps to be run */
		n = read(fd, &u, sizeof(u));
		if (n >= (ssize_t)sizeof(u.eh) &&
		    !memcmp(u.head, ELFMAG, SELFMAG)) {
			check_elf(path, fd, &u.eh);
			close(fd);
			return;
		}
		close(fd);
		if (n < 0 || !interpreter(u.head, (size_t)n, path))
			return; /* a shell's, as execvp() does */
	}
}

/* ---- the library ---- */

/* Beside this program, or where it was installed. */
static void find_library(char path[PATH_MAX])
{
	ssize_t n = readlink("/proc/self/exe", path, PATH_MAX - 1);
	char *slash;

	if (n > 0) {
		path[n] = 0;
		slash = strrchr(path, '/');
		if (slash + 1 - path + sizeof(LIBRARY) <= PATH_MAX) {
			strcpy(slash + 1, LIBRARY);
			if (is_file(path))
				return;
		}
	}
	strcpy(path, UTHREAD_LIBDIR "/" LIBRARY);
	if (!is_file(path))
		die(CANNOT, "%s is not there: install libuthread", path);
}

static void set(const char *name, const char *value)
{
	if (setenv(name, value, 1))
		die(CANNOT, "no memory");
}

static void preload(void)
{
	const char *others = getenv("LD_PRELOAD");
	char path[PATH_MAX], *all;

	find_library(path);
	if (strpbrk(path, ": "))
		die(CANNOT,
		    "%s: LD_PRELOAD cannot name a folder with a space or a colon",
		    path);
	if (!others || !*others) {
		set("LD_PRELOAD", path);
		return;
	}
	if (asprintf(&all, "%s:%s", path, others) < 0)
		die(CANNOT, "no memory");
	set("LD_PRELOAD", all);
	free(all);
}

/* ---- the command line ---- */

static const char usage[] =
	"usage: uthread-run [OPTIONS] PROGRAM [ARGS...]\n"
	"Run PROGRAM, which was compiled for pthreads, with uthreads.\n"
	"  --workers N   kernel threads for them (UTHREAD_WORKERS)\n"
	"  --tick T      preemption: 100us to 1s, or off (UTHREAD_TICK)\n"
	"  --policy P    fifo, priority or fair (UTHREAD_POLICY)\n"
	"  --dump-on S   at signal S: all threads, with backtraces (UTHREAD_DUMP)\n"
	"  --stats       a few lines on standard error at its end\n";

int main(int argc, char *argv[])
{
	static const struct option options[] = {
		{ "workers", required_argument, NULL, 'w' },
		{ "tick", required_argument, NULL, 't' },
		{ "policy", required_argument, NULL, 'p' },
		{ "dump-on", required_argument, NULL, 'd' },
		{ "stats", no_argument, NULL, 's' },
		{ "help", no_argument, NULL, 'h' },
		{ "version", no_argument, NULL, 'v' },
		{ NULL, 0, NULL, 0 },
	};
	char pid[16];
	int o;

	while ((o = getopt_long(argc, argv, "+", options, NULL)) != -1) {
		switch (o) {
		case 'w':
			set("UTHREAD_WORKERS", optarg);
			break;
		case 't':
			set("UTHREAD_TICK", optarg);
			break;
		case 'p':
			set("UTHREAD_POLICY", optarg);
			break;
		case 'd':
			set("UTHREAD_DUMP", optarg);
			break;
		case 's':
			/* Of this process, not of its children. */
			snprintf(pid, sizeof(pid), "%d", (int)getpid());
			set("UTHREAD_RUN_STATS", pid);
			break;
		case 'h':
			fputs(usage, stdout);
			return 0;
		case 'v':
			puts("uthread-run " UTHREAD_RUN_VERSION);
			return 0;
		default:
			fputs(usage, stderr);
			return USAGE;
		}
	}
	if (optind >= argc) {
		fputs(usage, stderr);
		return USAGE;
	}
	check_program(argv[optind]);
	preload();
	execvp(argv[optind], argv + optind);
	die(errno == ENOENT ? NOT_FOUND : CANNOT, "%s: %s", argv[optind],
	    strerror(errno));
}
