// SPDX-License-Identifier: GPL-2.0-only
/*
 * caps none|nice|admin PROGRAM [ARGUMENT...]: PROGRAM as root with no capability but
 * the one named, as a container's root has less than all. The bounding set goes too,
 * or an exec by root would bring everything back.
 */
#include <linux/capability.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

int main(int argc, char **argv)
{
	struct __user_cap_header_struct header = {
		.version = _LINUX_CAPABILITY_VERSION_3,
	};
	struct __user_cap_data_struct data[2];
	int keep = -1, cap;

	if (argc < 3) {
		fputs("usage: caps none|nice|admin PROGRAM [ARGUMENT...]\n",
		      stderr);
		return 2;
	}
	if (!strcmp(argv[1], "nice"))
		keep = CAP_SYS_NICE;
	else if (!strcmp(argv[1], "admin"))
		keep = CAP_SYS_ADMIN;
	for (cap = 0; cap < 64; cap++)
		if (cap != keep && prctl(PR_CAPBSET_DROP, cap, 0, 0, 0))
			break; /* there are no more */
	memset(data, 0, sizeof(data));
	if (keep >= 0)
		data[keep / 32].effective = data[keep / 32].permitted =
			1U << keep % 32;
	if (syscall(SYS_capset, &header, data)) {
		perror("capset");
		return 2;
	}
	execvp(argv[2], argv + 2);
	perror(argv[2]);
	return 127;
}
