# SPDX-License-Identifier: GPL-2.0-only
# shellcheck shell=busybox
#
# debugfs.sh - the same files in debugfs, of a module that was built with DEBUGFS=1; and
# none there of one that was not.

. "${0%/*}/lib.sh"
debug=$DEBUG/kthread_perf
unload
load
check debugfs_is_not_used_unasked [ ! -e $debug ]
unload
MODULE=${DEBUGFS_MODULE:-/swtch/debugfs.ko}
load
same debugfs_has_the_files "control samples stats" "$(ls $debug | tr '\n' ' ' | sed 's/ $//')"
echo "probe=scenario work_target=1000 start wait" >$debug/control
same debugfs_control_has_run 4000 "$(number counter)"
for file in control samples stats; do
	cat $PROC/$file >"$TMP/proc"
	cat $debug/$file >"$TMP/debug"
	check debugfs_${file}_is_that_of_proc cmp -s "$TMP/proc" "$TMP/debug"
done
why=$(echo nonsense 2>&1 >$debug/control)
check debugfs_control_refuses_too [ "${why%Invalid argument}" != "$why" ]

exec 3<$debug/samples
check debugfs_file_that_is_open_keeps_the_module sh -c "! rmmod kthread_perf 2>/dev/null"
exec 3<&-
unload
check debugfs_files_go_with_the_module [ ! -e $debug ]
finish debugfs
