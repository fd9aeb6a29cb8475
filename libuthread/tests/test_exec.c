/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_exec.c - other programs inherit nothing that is the runtime's: they get
 * the CPUs and the name that the process had.
 */
#include <spawn.h>
#include <sys/prctl.h>

#include "fork_util.h"

extern char **environ;

#define SAYS_CPUS "grep Cpus_allowed_list /proc/self/status"

static char all_cpus[256]; /* the process's before the runtime started */

static void read_line(int fd, char *line, size_t room)
{
	size_t n = 0;

	while (n < room - 1 && read(fd, line + n, 1) == 1 && line[n] != '\n')
		n++;
	line[n] = 0;
}

static void cpus_of_this_thread(char *line, size_t room)
{
	FILE *f = fopen("/proc/thread-self/status", "re");

	CHECK(f);
	while (fgets(line, (int)room, f))
		if (!strncmp(line, "Cpus_allowed_list", 17))
			break;
	fclose(f);
	line[strcspn(line, "\n")] = 0;
}

/* The ways to another program; in the child, with the pipe as its output. */
static void become(int how)
{
	char *argv[] = { (char *)"sh", (char *)"-c", (char *)SAYS_CPUS, NULL };

	switch (how) {
	case 0:
		execve("/bin/sh", argv, environ);
		break;
	case 1:
		execv("/bin/sh", argv);
		break;
	case 2:
		execvp("sh", argv);
		break;
	case 3:
		execl("/bin/sh", "sh", "-c", SAYS_CPUS, NULL);
		break;
	case 4:
		execlp("sh", "sh", "-c", SAYS_CPUS, NULL);
		break;
	case 5:
		execle("/bin/sh", "sh", "-c", SAYS_CPUS, NULL, environ);
		break;
	case 6:
		execve("/nowhere", argv, environ);
		execvpe("sh", argv, environ);
		break;
	default:
		fexecve(open("/bin/sh", O_RDONLY | O_CLOEXEC), argv, environ);
		break;
	}
	_exit(99);
}

#define WAYS 8

static void by_exec(int how, int vforks)
{
	char line[256];
	pid_t pid;
	int p[2];

	CHECK(!pipe2(p, O_CLOEXEC));
	pid = vforks ? vfork() : fork();
	if (!pid) {
		dup2(p[1], 1);
		become(how);
	}
	close(p[1]);
	read_line(p[0], line, sizeof(line));
	close(p[0]);
	ended_with(pid, 0);
	CHECK(!strcmp(line, all_cpus));
}

static void by_spawn(int path)
{
	char *argv[] = { (char *)"sh", (char *)"-c", (char *)SAYS_CPUS, NULL };
	posix_spawn_file_actions_t a;
	char line[256];
	pid_t pid;
	int p[2];

	CHECK(!pipe2(p, O_CLOEXEC));
	CHECK(!posix_spawn_file_actions_init(&a));
	CHECK(!posix_spawn_file_actions_adddup2(&a, p[1], 1));
	CHECK(!(path ? posix_spawnp(&pid, "sh", &a, NULL, argv, environ) :
		       posix_spawn(&pid, "/bin/sh", &a, NULL, argv, environ)));
	CHECK(!posix_spawn_file_actions_destroy(&a));
	close(p[1]);
	read_line(p[0], line, sizeof(line));
	close(p[0]);
	ended_with(pid, 0);
	CHECK(!strcmp(line, all_cpus));
}

static void *sees_its_cpus(void *arg)
{
	cpus_of_this_thread(arg, 256);
	return arg;
}

static void *runs_programs(void *arg)
{
	char line[512], mine_now[256], name[16] = "";
	pthread_t t;
	FILE *f;
	pid_t pid;

	cpus_of_this_thread(mine_now, sizeof(mine_now));
	CHECK(strcmp(mine_now, all_cpus)); /* pinned */
	for (int how = 0; how < WAYS; how++) {
		by_exec(how, 0);
		by_exec(how, 1);
	}
	by_spawn(0);
	by_spawn(1);
	f = popen(SAYS_CPUS, "re");
	CHECK(f);
	read_line(fileno(f), line, sizeof(line));
	CHECK_EQ(pclose(f), 0);
	CHECK(!strcmp(line, all_cpus));
	snprintf(line, sizeof(line), "test \"$(" SAYS_CPUS ")\" = '%s'",
		 all_cpus);
	CHECK_EQ(system(line), 0);
	pid = fork();
	if (!pid) {
		cpus_of_this_thread(line, sizeof(line));
		CHECK(!strcmp(line, all_cpus));
		CHECK(!prctl(PR_GET_NAME, name));
		CHECK(!strncmp(name, "test_exec", 9));
		in_uthread(nothing, NULL);
		_exit(3);
	}
	ended_with(pid, 3);
	CHECK(!pthread_create(&t, NULL, sees_its_cpus, line));
	CHECK(!pthread_join(t, NULL));
	CHECK(!strcmp(line, all_cpus));
	/* An exec that fails, here. */
	CHECK_EQ(execl("/nowhere", "nowhere", NULL), -1);
	CHECK_EQ(errno, ENOENT);
	cpus_of_this_thread(line, sizeof(line));
	CHECK(!strcmp(line, mine_now));
	return arg;
}

TEST(other_programs_get_all_cpus)
{
	struct uthread_config c = { .size = sizeof(c), .workers = 2, .pin = 1 };

	need_threads_in_a_child();
	cpus_of_this_thread(all_cpus, sizeof(all_cpus));
	if (sysconf(_SC_NPROCESSORS_ONLN) < 2 || !strpbrk(all_cpus, "-,"))
		SKIP("one CPU");
	CHECK_EQ(uthread_init(&c), 0);
	joined(spawn_on(0, runs_programs, NULL));
	joined(spawn_on(1, runs_programs, NULL));
}

TEST_MAIN()
