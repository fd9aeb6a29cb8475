/* SPDX-License-Identifier: Apache-2.0 */
/*
 * call_names.c - names of system calls in which a thread may sleep, for people.
 *
 * Those that wait for something, or for a disk. What this machine does not have
 * is left out; what is not here is said by its number.
 */
#include <stddef.h>
#include <sys/syscall.h>

#include "preempt/preempt.h"

static const struct {
	short nr;
	const char *name;
} names[] = {
#ifdef SYS_read
	{ SYS_read, "read" },
#endif
#ifdef SYS_write
	{ SYS_write, "write" },
#endif
#ifdef SYS_open
	{ SYS_open, "open" },
#endif
#ifdef SYS_openat
	{ SYS_openat, "openat" },
#endif
#ifdef SYS_close
	{ SYS_close, "close" },
#endif
#ifdef SYS_poll
	{ SYS_poll, "poll" },
#endif
#ifdef SYS_ppoll
	{ SYS_ppoll, "ppoll" },
#endif
#ifdef SYS_select
	{ SYS_select, "select" },
#endif
#ifdef SYS_pselect6
	{ SYS_pselect6, "pselect6" },
#endif
#ifdef SYS_epoll_wait
	{ SYS_epoll_wait, "epoll_wait" },
#endif
#ifdef SYS_epoll_pwait
	{ SYS_epoll_pwait, "epoll_pwait" },
#endif
#ifdef SYS_epoll_pwait2
	{ SYS_epoll_pwait2, "epoll_pwait2" },
#endif
#ifdef SYS_futex
	{ SYS_futex, "futex" },
#endif
#ifdef SYS_futex_wait
	{ SYS_futex_wait, "futex_wait" },
#endif
#ifdef SYS_futex_waitv
	{ SYS_futex_waitv, "futex_waitv" },
#endif
#ifdef SYS_nanosleep
	{ SYS_nanosleep, "nanosleep" },
#endif
#ifdef SYS_clock_nanosleep
	{ SYS_clock_nanosleep, "clock_nanosleep" },
#endif
#ifdef SYS_accept
	{ SYS_accept, "accept" },
#endif
#ifdef SYS_accept4
	{ SYS_accept4, "accept4" },
#endif
#ifdef SYS_connect
	{ SYS_connect, "connect" },
#endif
#ifdef SYS_recvfrom
	{ SYS_recvfrom, "recvfrom" },
#endif
#ifdef SYS_recvmsg
	{ SYS_recvmsg, "recvmsg" },
#endif
#ifdef SYS_recvmmsg
	{ SYS_recvmmsg, "recvmmsg" },
#endif
#ifdef SYS_sendto
	{ SYS_sendto, "sendto" },
#endif
#ifdef SYS_sendmsg
	{ SYS_sendmsg, "sendmsg" },
#endif
#ifdef SYS_sendmmsg
	{ SYS_sendmmsg, "sendmmsg" },
#endif
#ifdef SYS_readv
	{ SYS_readv, "readv" },
#endif
#ifdef SYS_writev
	{ SYS_writev, "writev" },
#endif
#ifdef SYS_preadv
	{ SYS_preadv, "preadv" },
#endif
#ifdef SYS_pwritev
	{ SYS_pwritev, "pwritev" },
#endif
#ifdef SYS_preadv2
	{ SYS_preadv2, "preadv2" },
#endif
#ifdef SYS_pwritev2
	{ SYS_pwritev2, "pwritev2" },
#endif
#ifdef SYS_pread64
	{ SYS_pread64, "pread64" },
#endif
#ifdef SYS_pwrite64
	{ SYS_pwrite64, "pwrite64" },
#endif
#ifdef SYS_sendfile
	{ SYS_sendfile, "sendfile" },
#endif
#ifdef SYS_splice
	{ SYS_splice, "splice" },
#endif
#ifdef SYS_tee
	{ SYS_tee, "tee" },
#endif
#ifdef SYS_vmsplice
	{ SYS_vmsplice, "vmsplice" },
#endif
#ifdef SYS_copy_file_range
	{ SYS_copy_file_range, "copy_file_range" },
#endif
#ifdef SYS_fsync
	{ SYS_fsync, "fsync" },
#endif
#ifdef SYS_fdatasync
	{ SYS_fdatasync, "fdatasync" },
#endif
#ifdef SYS_sync
	{ SYS_sync, "sync" },
#endif
#ifdef SYS_syncfs
	{ SYS_syncfs, "syncfs" },
#endif
#ifdef SYS_sync_file_range
	{ SYS_sync_file_range, "sync_file_range" },
#endif
#ifdef SYS_msync
	{ SYS_msync, "msync" },
#endif
#ifdef SYS_flock
	{ SYS_flock, "flock" },
#endif
#ifdef SYS_fcntl
	{ SYS_fcntl, "fcntl" },
#endif
#ifdef SYS_wait4
	{ SYS_wait4, "wait4" },
#endif
#ifdef SYS_waitid
	{ SYS_waitid, "waitid" },
#endif
#ifdef SYS_semop
	{ SYS_semop, "semop" },
#endif
#ifdef SYS_semtimedop
	{ SYS_semtimedop, "semtimedop" },
#endif
#ifdef SYS_msgsnd
	{ SYS_msgsnd, "msgsnd" },
#endif
#ifdef SYS_msgrcv
	{ SYS_msgrcv, "msgrcv" },
#endif
#ifdef SYS_mq_timedsend
	{ SYS_mq_timedsend, "mq_timedsend" },
#endif
#ifdef SYS_mq_timedreceive
	{ SYS_mq_timedreceive, "mq_timedreceive" },
#endif
#ifdef SYS_io_getevents
	{ SYS_io_getevents, "io_getevents" },
#endif
#ifdef SYS_io_pgetevents
	{ SYS_io_pgetevents, "io_pgetevents" },
#endif
#ifdef SYS_io_uring_enter
	{ SYS_io_uring_enter, "io_uring_enter" },
#endif
#ifdef SYS_pause
	{ SYS_pause, "pause" },
#endif
#ifdef SYS_rt_sigsuspend
	{ SYS_rt_sigsuspend, "rt_sigsuspend" },
#endif
#ifdef SYS_rt_sigtimedwait
	{ SYS_rt_sigtimedwait, "rt_sigtimedwait" },
#endif
#ifdef SYS_ioctl
	{ SYS_ioctl, "ioctl" },
#endif
#ifdef SYS_getdents64
	{ SYS_getdents64, "getdents64" },
#endif
#ifdef SYS_stat
	{ SYS_stat, "stat" },
#endif
#ifdef SYS_lstat
	{ SYS_lstat, "lstat" },
#endif
#ifdef SYS_fstat
	{ SYS_fstat, "fstat" },
#endif
#ifdef SYS_newfstatat
	{ SYS_newfstatat, "newfstatat" },
#endif
#ifdef SYS_statx
	{ SYS_statx, "statx" },
#endif
#ifdef SYS_access
	{ SYS_access, "access" },
#endif
#ifdef SYS_faccessat
	{ SYS_faccessat, "faccessat" },
#endif
#ifdef SYS_faccessat2
	{ SYS_faccessat2, "faccessat2" },
#endif
#ifdef SYS_mkdir
	{ SYS_mkdir, "mkdir" },
#endif
#ifdef SYS_mkdirat
	{ SYS_mkdirat, "mkdirat" },
#endif
#ifdef SYS_rename
	{ SYS_rename, "rename" },
#endif
#ifdef SYS_renameat
	{ SYS_renameat, "renameat" },
#endif
#ifdef SYS_renameat2
	{ SYS_renameat2, "renameat2" },
#endif
#ifdef SYS_unlink
	{ SYS_unlink, "unlink" },
#endif
#ifdef SYS_unlinkat
	{ SYS_unlinkat, "unlinkat" },
#endif
#ifdef SYS_rmdir
	{ SYS_rmdir, "rmdir" },
#endif
#ifdef SYS_truncate
	{ SYS_truncate, "truncate" },
#endif
#ifdef SYS_ftruncate
	{ SYS_ftruncate, "ftruncate" },
#endif
#ifdef SYS_fallocate
	{ SYS_fallocate, "fallocate" },
#endif
#ifdef SYS_readlink
	{ SYS_readlink, "readlink" },
#endif
#ifdef SYS_readlinkat
	{ SYS_readlinkat, "readlinkat" },
#endif
#ifdef SYS_mmap
	{ SYS_mmap, "mmap" },
#endif
#ifdef SYS_munmap
	{ SYS_munmap, "munmap" },
#endif
#ifdef SYS_mprotect
	{ SYS_mprotect, "mprotect" },
#endif
#ifdef SYS_madvise
	{ SYS_madvise, "madvise" },
#endif
#ifdef SYS_mremap
	{ SYS_mremap, "mremap" },
#endif
#ifdef SYS_process_vm_readv
	{ SYS_process_vm_readv, "process_vm_readv" },
#endif
#ifdef SYS_process_vm_writev
	{ SYS_process_vm_writev, "process_vm_writev" },
#endif
#ifdef SYS_getrandom
	{ SYS_getrandom, "getrandom" },
#endif
#ifdef SYS_shutdown
	{ SYS_shutdown, "shutdown" },
#endif
#ifdef SYS_restart_syscall
	{ SYS_restart_syscall, "restart_syscall" },
#endif
#ifdef SYS_membarrier
	{ SYS_membarrier, "membarrier" },
#endif
#ifdef SYS_sched_yield
	{ SYS_sched_yield, "sched_yield" },
#endif
};

static char *put(char *at, const char *s)
{
	while (*s)
		*at++ = *s++;
	*at = 0;
	return at;
}

/* Async-signal-safe. */
void call_name(long nr, char text[UTHREAD_CALL_NAME_MAX])
{
	char digits[20];
	int n = 0;
	size_t i;

	for (i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
		if (names[i].nr == nr) {
			put(put(text, names[i].name), "()");
			return;
		}
	}
	if (nr < 0 || nr > 99999999) {
		put(text, "a system call");
		return;
	}
	text = put(text, "system call ");
	do
		digits[n++] = (char)('0' + nr % 10);
	while (nr /= 10);
	while (n)
		*text++ = digits[--n];
	*text = 0;
}
