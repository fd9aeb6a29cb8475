# SPDX-License-Identifier: GPL-2.0-only
# shellcheck shell=busybox
#
# access.sh - who may start a run, and whose numbers a PID is.

. "${0%/*}/lib.sh"
CAPS=${CAPS:-/swtch/caps}
load
control "probe=scenario work_target=1000 start wait"
before=$(cat $PROC/control)

# as WHO... TEXT FILE: what the shell says of a write.
write='echo "$1" >"$2"'
as() {
	"$@" 2>&1
}
refused_to() {
	local name=$1 file
	shift
	for file in control stats; do
		case $file in
		control) text="n=7 start wait" ;;
		stats) text='{"a":1}' ;;
		esac
		case $(as "$@" sh -c "$write" sh "$text" $PROC/$file) in
		*"Operation not permitted"*) ok "${name}_may_not_write_$file" ;;
		*) fail "${name}_may_not_write_$file" "$(state)" ;;
		esac
	done
	same "${name}_changed_nothing" "$before" "$(cat $PROC/control)"
	same "${name}_left_no_result" "" "$(sed -n '/^pthread\./p' $PROC/stats)"
}
refused_to root_without_capabilities "$CAPS" none
refused_to root_of_another_user_namespace unshare -U -r
check root_without_capabilities_may_read "$CAPS" none sh -c "grep -q '^state done' $PROC/control"
for one in nice admin; do
	same "root_with_cap_sys_${one}_starts" "" \
		"$(as "$CAPS" $one sh -c "$write" sh "probe=scenario work_target=5 start wait" $PROC/control)"
	same "root_with_cap_sys_${one}_has_run" 20 "$(number counter)"
done
same root_with_cap_sys_nice_writes_stats "" \
	"$(as "$CAPS" nice sh -c "$write" sh '{"a":1}' $PROC/stats)"

# Process 1 is another one in another namespace of PIDs. Here it is the guest's first.
mm="probe=scenario work_target=5 mm=1 mm_pids=1 start wait"
same pid_here_is_taken "" "$(control "$mm")"
same pid_of_another_namespace_is_refused 1 \
	"$(as unshare -p -f sh -c "$write" sh "$mm" $PROC/control | grep -c 'Invalid argument')"
same without_a_pid_any_namespace_will_do "" \
	"$(as unshare -p -f sh -c "$write" sh "probe=scenario work_target=5 start wait" $PROC/control)"
finish access
