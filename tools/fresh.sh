#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# fresh.sh [--keep] [run] [test]: what a newcomer meets. Bootstrap a minimal
# Debian 12 into a temporary folder, put what is committed here into it, and run
# the two commands of README.md there, or only one of them; say what each had to
# install, what it missed, and how long it took. --keep leaves the folder, which
# is made in TMPDIR (/tmp), for a look.
#
# The system comes from this machine's own apt sources and reaches the network
# as this machine does: its names, proxies, certificates and pip settings are
# copied. It sees nothing else of this machine but /dev and /sys.
#
# Every step has namespaces of its own for mounts and for processes, and in them
# the folder is the root. However a step ends, its mounts and its processes go
# with it, so that the folder is only files, whenever it is removed. A chroot
# instead would leave mounts behind when this script is killed, for the next
# `rm -r` to go through, and in one the kernel refuses user namespaces.

. "$(dirname "${BASH_SOURCE[0]}")/lib.sh"

SUITE=bookworm
GIVEN=make,gcc,python3,ca-certificates # what README.md asks for
SPACE_MB=12000
# What of this environment is seen inside: the network's settings.
PASSED='^((https?|ftp|all|no)_proxy|PIP_.*|(SSL|CURL|REQUESTS)_.*|TERM)$'

keep=no
commands=()
for word in "$@"; do
	case $word in
	--keep) keep=yes ;;
	run | test) commands+=("$word") ;;
	*) die 2 "usage: fresh.sh [--keep] [run] [test]" ;;
	esac
done
[ ${#commands[@]} -gt 0 ] || commands=(run test)

PATH=$PATH:/usr/sbin:/sbin
[ "$(id -u)" -eq 0 ] ||
	die 3 "only root can bootstrap a system: sudo make fresh"
command -v apt-config >/dev/null ||
	die 3 "there is no apt, whose sources the system would come from;" \
		"use a Debian machine"
unshare --mount --pid --fork true 2>/dev/null ||
	die 3 "mounts are forbidden here, as in most containers; use a machine"
tools/packages.sh fresh
git=(git -c "safe.directory=$ROOT")
commit=$("${git[@]}" rev-parse -q --verify HEAD 2>/dev/null) ||
	die 3 "this tree is not a git clone: what is committed in it cannot be said"
[ -z "$("${git[@]}" status --porcelain)" ] ||
	note "what is not committed here is left out"

# --- what the machine says about its sources ---

# Debian's own suites in this machine's sources, as "URI SUITE COMPONENT". The
# origin and the code name are known once the lists were fetched.
sources() {
	# shellcheck disable=SC2016 # apt-get fills them in
	apt-get indextargets 'Created-By: Packages' --format \
		'$(ARCHITECTURE) $(ORIGIN) $(REPO_URI) $(RELEASE) $(COMPONENT) $(CODENAME)' |
		awk -v arch="$(dpkg --print-architecture)" -v suite="$SUITE" '
		$1 == arch && ($2 == "Debian" || $2 ~ /^\$/) && $5 == "main" &&
			($4 " " $6) ~ "(^| )" suite "(-updates|-security)?( |$)" {
			print $3, $4, $5
		}'
}

list=$(sources)
mirror=$(awk -v suite="$SUITE" '$2 == suite || $2 == "stable" {
	print $1; exit }' <<<"$list")
[ -n "$mirror" ] ||
	die 3 "the apt sources of this machine name no Debian 12 ($SUITE main)"

# wget and debootstrap know the environment's proxies only.
for scheme in http https; do
	proxy=
	eval "$(apt-config shell proxy "Acquire::$scheme::Proxy")"
	name=${scheme}_proxy
	[ -z "$proxy" ] || [ "$proxy" = DIRECT ] || [ -n "${!name:-}" ] ||
		export "$name=$proxy"
done
if [[ $mirror == http* ]]; then
	wget -q --spider --timeout=30 --tries=2 "${mirror%/}/dists/$SUITE/Release" ||
		die 3 "the mirror of this machine's apt sources does not answer:" \
			"is there a network?"
fi

base=${TMPDIR:-/tmp}
[ -d "$base" ] || die 3 "TMPDIR=$base is not a folder; set it to one"
space=$(df --output=avail -m -- "$base" | tail -n 1)
[ "$space" -ge "$SPACE_MB" ] ||
	die 3 "$base has $((space)) MB left and $SPACE_MB are needed;" \
		"set TMPDIR to another folder"

# --- steps, and their end ---

step=
folder=$(mktemp -d "$base/swtch-fresh.XXXXXX")
chmod 755 "$folder"
root=$folder/root
mkdir "$root"
export TMPDIR=$folder

# Its first process takes all others of a namespace with it.
end_step() {
	local first=
	[ -n "$step" ] || return 0
	read -r first <"/proc/$step/task/$step/children" || true
	kill -KILL "${first:-$step}" || true
	wait "$step" || true
	step=
}

clean() {
	trap '' INT TERM HUP
	end_step 2>/dev/null
	if [ "$keep" = yes ]; then
		note "the system is kept in $root"
	else
		rm -rf --one-file-system -- "$folder"
	fi
}
trap clean EXIT
trap 'exit 129' HUP
trap 'exit 130' INT
trap 'exit 143' TERM

# isolated COMMAND...: run it as a step. In the background, because bash looks
# at signals only between commands and in wait; what is run there ignores
# SIGINT, if nobody tells it otherwise. unshare itself is silent: when its
# child is killed, it complains of a signal mask.
isolated() {
	local status=0
	# shellcheck disable=SC2016 # for the other shell
	env --default-signal=INT,QUIT setpriv --pdeathsig KILL unshare \
		--mount-proc --pid --fork --kill-child \
		bash -c 'exec 2>&3 3>&-; "$@"' bash "$@" 3>&2 2>/dev/null &
	step=$!
	wait "$step" || status=$?
	step=
	return "$status"
}

# enter ROOT COMMAND...: what a step does first to be inside. The shell stays, to
# collect orphans, as the first process of a system has to.
enter() {
	set -e
	mount --bind "$1" "$1"
	cd "$1"
	mount -t proc proc proc
	mount --rbind /sys sys
	mount --rbind /dev dev
	mount -t tmpfs tmpfs dev/shm
	pivot_root . mnt
	local name passed=$PASSED
	while read -r name; do
		[[ $name =~ $passed ]] || unset "$name"
	done < <(compgen -e)
	export -nf enter
	export HOME=/root PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin
	# shellcheck disable=SC2016 # for the other shell
	exec chroot . bash -c 'umount -l /mnt; cd; "$@"; exit $?' bash "${@:2}"
}
export PASSED
export -f enter

inside() {
	isolated enter "$root" "$@"
}

# --- the system ---

# copy PATH [AS]: into the system, if it is here; links are followed. What
# cannot be read, cp says, and perhaps nobody needs it.
copy() {
	local to=$root${2:-$1}
	[ -e "$1" ] || return 0
	if [ -d "$1" ]; then
		mkdir -p "$to"
		cp -RL -- "$1/." "$to/" || true
	else
		mkdir -p "$(dirname "$to")"
		rm -f "$to"
		cp -L -- "$1" "$to" || true
	fi
}

passed_values() {
	local name
	while read -r name; do
		[[ ! $name =~ $PASSED ]] || printf '%s\n' "${!name}"
	done < <(compgen -e)
}

# How the machine reaches its sources and pip its index, and whatever files
# those settings name: certificates, folders of wheels.
configure() {
	local home=/root # of who runs the commands in there
	local path pip=(/etc/pip.conf "${XDG_CONFIG_HOME:-$HOME/.config}/pip/pip.conf"
		"$HOME/.pip/pip.conf")
	printf '%s\n' "deb ${list//$'\n'/$'\ndeb '}" >"$root/etc/apt/sources.list"
	# Lists of icons and the like are not for a minimal system.
	apt-config dump | sed '/^Acquire::/!d; /^Acquire::IndexTargets/d' \
		>"$root/etc/apt/apt.conf.d/90machine"
	for path in /etc/{hosts,resolv.conf} /usr/local/share/ca-certificates \
		/etc/apt/{auth.conf,auth.conf.d,trusted.gpg,trusted.gpg.d}; do
		copy "$path"
	done
	copy "${pip[0]}"
	copy "${pip[1]}" "$home/.config/pip/pip.conf"
	copy "${pip[2]}" "$home/.pip/pip.conf"
	copy "$HOME/.netrc" "$home/.netrc"
	while read -r path; do
		[ -e "$root$path" ] || copy "$path"
	done < <({
		passed_values
		cat "$root/etc/apt/apt.conf.d/90machine" "${pip[@]}" 2>/dev/null
	} | grep -oE '(^|[ ="'\''])/[^] ;,"'\'']+' | sed 's,^[^/]*,,' | sort -u)
	"${git[@]}" archive --prefix=swtch/ "$commit" | tar -x -C "$root/root"
}

installed() {
	dpkg-query --admindir="$root/var/lib/dpkg" -W -f '${Package}\n' | wc -l
}

start=$SECONDS
bootstrap() {
	isolated debootstrap --variant=minbase --include="$GIVEN" "$SUITE" \
		"$root" "$mirror"
}
quietly "bootstrapping Debian 12 with $GIVEN into $folder" bootstrap ||
	die 1 "debootstrap failed (see above)"
configure
quietly "giving it this machine's certificates" inside update-ca-certificates ||
	die 1 "update-ca-certificates failed (see above)"
report=("commit ${commit:0:10}: a system of $(installed) packages after $((SECONDS - start)) s")

# --- the commands ---

# left_out LOG: the guests that could not be had, the tests that were skipped.
left_out() {
	grep -E -e '^swtch: no guest' -e '^SKIPPED ' \
		-e '^ *[0-9]+/[0-9]+ .* SKIP ' "$1" || true
}

# missed LOG: the lines of shells, compilers, Meson and Python for what is not
# there, and our own errors.
missed() {
	grep -oE -e '[^ :]+: (command )?not found' -e '[^ :]+: No such file .*' \
		-e 'ModuleNotFoundError: .*' -e 'cannot find -l[^ :]+' \
		-e '(Program|Dependency|Library) .* not found.*' \
		-e 'Dependency lookup .*' -e 'swtch: error: .*' "$1" |
		awk '!seen[$0]++' | head -n 20 || true
}

# tell WHAT: each line of standard input into the report.
tell() {
	local line
	while read -r line; do
		report+=("$1: $line")
	done
}

failed=()
for command in "${commands[@]}"; do
	note "make $command, in it"
	log=$folder/$command.log
	start=$SECONDS
	before=$(installed)
	mkfifo "$folder/output"
	tee "$log" <"$folder/output" &
	shown=$!
	status=0
	inside make --no-print-directory -C swtch "$command" \
		>"$folder/output" 2>&1 || status=$?
	wait "$shown"
	rm "$folder/output"
	if [ "$status" -eq 0 ]; then
		verdict=passed
	else
		verdict="FAILED with status $status"
		failed+=("make $command")
	fi
	report+=("make $command: $verdict after $((SECONDS - start)) s")
	tell "  it installed" < <(sed -n \
		's/^swtch: installing Debian packages: //p' "$log")
	report+=("  $(($(installed) - before)) packages came by that")
	tell "  it left out" < <(left_out "$log")
	[ "$status" -eq 0 ] || tell "  it missed" < <(missed "$log")
done

report+=("the system has $(du -sm "$root" | cut -f 1) MB in the end")
for line in "${report[@]}"; do
	note "$line"
done
[ ${#failed[@]} -eq 0 ] ||
	die 1 "failed on a fresh machine: $(printf '%s, ' "${failed[@]}" | sed 's/, $//')"
note "passed on a fresh machine: $(printf 'make %s, ' "${commands[@]}" | sed 's/, $//')"
