#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# crash.sh PROGRAM: a storm in which something crashes ends at once, and has said who,
# from where and what all others did.
for how in 1 2; do
	said=$(SOAK_CRASH=$how SOAK_SECONDS=600 SOAK_PATIENCE=600 "$1" 2>&1)
	status=$?
	if [ $status -eq 0 ]; then
		echo "SOAK_CRASH=$how: exit status 0"
		exit 1
	fi
	for words in "; seed " "uthread: worker" "called by:" "\[0x"; do
		if ! printf '%s\n' "$said" | grep -q "$words"; then
			printf '%s\nSOAK_CRASH=%s: no "%s" above\n' "$said" "$how" "$words"
			exit 1
		fi
	done
done
