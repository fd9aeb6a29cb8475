/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_secure.c - a program that runs with others' rights takes nothing from
 * who started it: a copy of this one with the setgid bit.
 */
#include <dlfcn.h>
#include <grp.h>
#include <limits.h>
#include <sys/auxv.h>
#include <sys/stat.h>

#include "util.h"

#define MODULE "filler0.so" /* beside this program */

/* What it is told by the environment. */
static const char *const said[][2] = {
	{ "UTHREAD_WORKERS", "7" },   { "UTHREAD_STACK_SIZE", "bad" },
	{ "UTHREAD_TLS", "bad" },     { "UTHREAD_GUARD", "bad" },
	{ "UTHREAD_MAIN", "bad" },    { "UTHREAD_PIN", "bad" },
	{ "UTHREAD_TICK", "bad" },    { "UTHREAD_POLICY", "bad" },
	{ "UTHREAD_PREEMPT", "bad" }, { "UTHREAD_SIGNAL", "bad" },
	{ "UTHREAD_SPARES", "bad" },
};

#define NSAID (int)(sizeof(said) / sizeof(said[0]))

/* What the copy found, in its status. */
enum { SECURE = 1, SEVEN = 2, OPENED = 4 };

static int look(void)
{
	int found = 0;

	if (getauxval(AT_SECURE))
		found |= SECURE;
	if (uthread_workers() == 7)
		found |= SEVEN;
	if (dlopen(MODULE, RTLD_NOW))
		found |= OPENED;
	return found;
}

static char dir[PATH_MAX], prog[PATH_MAX + 8], module[PATH_MAX + 16];

static int copy(const char *from, const char *to, mode_t mode)
{
	int in = open(from, O_RDONLY | O_CLOEXEC);
	int out = open(to, O_WRONLY | O_CREAT | O_CLOEXEC, 0700);
	char some[1 << 16];
	ssize_t n = -1;

	while (in >= 0 && out >= 0 && (n = read(in, some, sizeof(some))) > 0)
		if (write(out, some, (size_t)n) != n)
			break;
	if (!n)
		n = fchmod(out, mode);
	close(in);
	close(out);
	return n ? -1 : 0;
}

/* One that we are not in by itself. */
static gid_t other_group(void)
{
	gid_t groups[NGROUPS_MAX];
	int n = getgroups(NGROUPS_MAX, groups);

	for (int i = 0; i < n; i++)
		if (groups[i] != getgid())
			return groups[i];
	return getgid() + 1; /* as root */
}

static void run_copy(void)
{
	for (int i = 0; i < NSAID; i++)
		setenv(said[i][0], said[i][1], 1);
	execl(prog, prog, "--look", NULL);
	_exit(127);
}

static void made(int ok, const char *why)
{
	if (ok)
		return;
	unlink(prog);
	unlink(module);
	rmdir(dir);
	SKIP(why);
}

static void make_copy(void)
{
	char from[PATH_MAX + 16], *name;
	ssize_t n = readlink("/proc/self/exe", dir, sizeof(dir) - 16);

	CHECK(n > 0);
	dir[n] = 0;
	name = strrchr(dir, '/') + 1;
	strcpy(name, MODULE);
	strcpy(from, dir);
	strcpy(name, "secure-XXXXXX");
	if (!mkdtemp(dir))
		SKIP("no folder can be made beside the program");
	snprintf(prog, sizeof(prog), "%s/prog", dir);
	snprintf(module, sizeof(module), "%s/" MODULE, dir);
	made(!copy("/proc/self/exe", prog, 0755), "no copy of the program");
	made(!copy(from, module, 0644), "no copy of a library");
}

TEST(others_rights_are_not_steered_by_the_environment)
{
	char plain[4096], secure[4096], *s;
	int lines = 0, before, after;

	if (TEST_EMULATED)
		SKIP("the copy would run without the emulator");
	make_copy();
	before = in_child(run_copy, plain, sizeof(plain));
	made(!chown(prog, (uid_t)-1, other_group()) && !chmod(prog, 02755),
	     "no other group to be had");
	after = in_child(run_copy, secure, sizeof(secure));
	made(!WIFEXITED(after) || WEXITSTATUS(after) & SECURE,
	     "setgid programs are not let be such here");
	unlink(prog);
	unlink(module);
	rmdir(dir);
	fprintf(stderr, "plain:\n%ssecure:\n%s", plain, secure);
	/* All of it matters without others' rights, ... */
	CHECK(WIFEXITED(before));
	CHECK_EQ(WEXITSTATUS(before), SEVEN | OPENED);
	for (s = plain; *s; s++)
		lines += *s == '\n';
	CHECK_EQ(lines, NSAID - 1);
	/* ... and nothing with them. */
	CHECK(WIFEXITED(after));
	CHECK_EQ(WEXITSTATUS(after), SECURE);
	CHECK_EQ(*secure, 0);
}

#define main run_tests
TEST_MAIN()
#undef main

int main(int argc, char **argv)
{
	if (argc == 2 && !strcmp(argv[1], "--look"))
		_exit(look());
	return run_tests(argc, argv);
}
