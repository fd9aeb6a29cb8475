# SPDX-License-Identifier: GPL-2.0-only
# shellcheck shell=busybox
#
# kunit.sh - the module's KUnit tests, in a kernel that has KUnit: they run when a module
# that was built with KUNIT=1 is loaded, and their results stay in debugfs while it is. Where
# the kernel has none, neither is there such a module.

. "${0%/*}/lib.sh"
results=$DEBUG/kunit
module=${KUNIT_MODULE:-/swtch/kunit.ko}
if [ ! -d "$results" ]; then
	check kunit_has_no_module_without_a_kernel [ ! -e "$module" ]
	finish kunit
fi
unload
MODULE=$module
load
for suite in params histogram algebra; do
	sed -n 's/^ *\(ok\|not ok\) [0-9]* \(kperf_kunit_[^ ]*\).*/\1 \2/p' \
		"$results/kperf_$suite/results" >"$TMP/kunit"
	while read -r verdict name more; do
		case $verdict in
		ok) ok "$name" ;;
		*) fail "$more" "$(grep "# $more: " "$results/kperf_$suite/results")" ;;
		esac
	done <"$TMP/kunit"
	check "kunit_${suite}_has_ended_well" grep -q "^ok [0-9]* kperf_$suite" "$results/kperf_$suite/results"
done
control "probe=scenario work_target=1000 start wait"
same kunit_leaves_it_working 4000 "$(number counter)"
finish kunit
