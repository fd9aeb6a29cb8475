#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# conformance.sh [SUITE...]: others' tests of threads, each with glibc's threads and then by
# uthread-run. SUITE, all if none is named: glibc (its own tests, compiled against the glibc
# that is installed), gnulib, glib; their Debian packages are in `need` below. Of the
# environment: ONLY=PATTERN, tests by their names; WAYS, of default, tick (100us), single
# (one worker).
#
# What passes with glibc's threads has to pass by uthread-run, but for KNOWN; exit status 1
# if something else fails. What is built, and each test's output, is in build-conformance/.

. "$(dirname "${BASH_SOURCE[0]}")/lib.sh"

# docs/runtime/preload.md says why.
KNOWN=(tst-cancel{,x}{9,20,21} tst-cancel30 tst-signal3 tst-setuid2
	tst-malloc-stats-cancellation tst-gettid-kill tst-tgkill tst-pthread_cancel-exited)

export WORK=$ROOT/build-conformance WAYS=${WAYS:-default tick single}
export RUN=$ROOT/build-programs/libuthread/preload/uthread-run
# Nothing that a test starts outlives it; nobody sets the clock or runs at a real-time
# policy: what only this way fails it fails with glibc's threads, too, and does not count.
caps=-sys_nice,-sys_time,-sys_boot,-sys_admin
export CAGE="unshare -p -i -f --mount-proc --kill-child setpriv --inh-caps=$caps --bounding-set=$caps"
$CAGE true 2>/dev/null || CAGE=

# need FILE PACKAGE...: what only the owner of the machine can install.
need() {
	[ -e "$1" ] || die 3 "missing Debian packages; as root run: apt-get install ${*:2}"
}

# ---- glibc ----

# Headers of its own come behind those that are installed.
cc_glibc() {
	local dir late=()
	for dir in include support nptl sysdeps/{pthread,unix/sysv/linux,nptl,x86_64/nptl,x86_64,x86,generic} .; do
		late+=(-idirafter "$WORK/glibc-source/$dir")
	done
	gcc -w -O1 -g -D_GNU_SOURCE -include first.h -I "$WORK/include" "$@" "${late[@]}"
}

# Those that need glibc's internals do not compile, and are left out.
compile_glibc() {
	local out=$WORK/glibc flags=(-std=gnu11) name
	if [[ $1 == */support/* ]]; then
		for name in {SRC,OBJ,INST,LIB,BIN,SBIN,ROOTSBIN,SLIB,COMPLOCALE,SYSCONF}DIR OBJDIR_ELF_LDSO; do
			flags+=("-D${name}_PATH=\"/usr\"")
		done
		cc_glibc "${flags[@]}" -c "$1" -o "$WORK/support/$(basename "$1" .c).o" 2>/dev/null || :
		return
	fi
	out=$out/$(basename "${1%.*}")
	[[ $1 != *.cc ]] || flags=(-std=gnu++11 -lstdc++)
	[[ ! $1 =~ (cancel|cleanup|once)x[0-9] ]] || flags+=(-fexceptions)
	[[ $1 != *mod[0-9a-z]*.c && $1 != *mod.c ]] || { flags+=(-shared -fPIC) && out=$out.so; }
	cc_glibc "$1" "${flags[@]}" -rdynamic -o "$out" "$WORK/libsupport.a" -lrt -lm \
		-Wl,--allow-shlib-undefined 2>"$out.errors" || rm -f "$out"
}

suite_glibc() {
	local src=$WORK/glibc-source tar=/usr/src/glibc/glibc-2.36.tar.xz name args
	need $tar glibc-source
	mkdir -p "$src" "$WORK"/{include,support,glibc}
	tar -C "$src" --strip-components=1 --skip-old-files -xf $tar
	ln -sfn "$src/support" "$src/test-skeleton.c" "$WORK/include/"
	ln -sfn "$src/test-skeleton.c" "$WORK/"
	: >"$WORK/include/config.h"
	printf '#define %s\n' 'TIMEOUTFACTOR 2' '_ISOMAC 1' attribute_hidden \
		attribute_tls_model_ie attribute_relro 'libc_hidden_proto(...)' 'libc_hidden_def(...)' \
		'rtld_hidden_proto(...)' 'PTHREAD_STATIC_FN_REQUIRE(x)' 'HAVE_TUNABLES 1' 'IS_IN(x) 0' \
		'NAME_MAX 255' >"$WORK/include/first.h"
	note "compiling glibc's tests"
	export -f cc_glibc compile_glibc
	find "$src/support" -name '*.c' ! -name 'tst-*' ! -name '*-container.c' |
		xargs -P 2 -I{} bash -c 'compile_glibc {}'
	ar rc "$WORK/libsupport.a" "$WORK"/support/*.o
	{
		find "$src"/{nptl,rt,signal,sysdeps/pthread,sysdeps/unix/sysv/linux} \
			-maxdepth 1 -name 'tst-*.c*'
		# Of all others those that make threads.
		find "$src"/{posix,stdio-common,libio,dlfcn,malloc,stdlib,socket,io,misc,time,debug,elf} \
			-maxdepth 1 -name 'tst-*.c' -print0 | xargs -0 grep -lE 'pthread_create|thrd_create'
	} | grep -v -- -static | xargs -P 2 -I{} bash -c 'compile_glibc {}'
	for name in $(find "$WORK/glibc" -type f -executable ! -name '*.so' -printf '%f\n' | sort); do
		case $name in
		tst-cancel7 | tst-cancelx7) args="--command 'exec $WORK/glibc/$name'" ;;
		tst-exec4) args=$WORK/glibc/$name ;;
		tst-umask1) args=umask.temp ;;
		*) args= ;;
		esac
		echo "$name $WORK/glibc/$name${args:+ $args}"
	done
}

# ---- gnulib, glib ----

suite_gnulib() {
	local dir=$WORK/gnulib name
	need /usr/share/gnulib/gnulib-tool gnulib
	need /usr/bin/automake automake
	[ -d "$dir/gltests" ] || quietly "making gnulib's tests" /usr/share/gnulib/gnulib-tool \
		--create-testdir --dir="$dir" pthread-{cond,mutex,once,rwlock,spin,thread,tss} \
		pthread_sigmask lock cond thread tls mtx cnd thrd tss poll select pselect \
		sigaction sigprocmask nanosleep sleep usleep raise
	(cd "$dir" && { [ -f Makefile ] || quietly "configuring gnulib's tests" ./configure; } &&
		quietly "compiling gnulib's tests" make -j2 &&
		quietly "compiling gnulib's tests" make -C gltests -k -j2 check TESTS=)
	for name in $(find "$dir/gltests" -maxdepth 1 -name 'test-*' -type f -executable ! -name '*.sh' -printf '%f\n' | sort); do
		[[ ! $name =~ call_once|cnd|cond|lock|mtx|nanosleep|once|poll|select|pthread|raise|sched|sig|sleep|thr|tls|tss|accept|connect|pipe2 ]] ||
			echo "$name $dir/gltests/$name"
	done
}

suite_glib() {
	local dir=/usr/share/installed-tests/glib file
	need $dir libglib2.0-tests dbus-daemon
	for file in "$dir"/*.test; do
		echo "$(basename "$file" .test) $(sed -n 's/^Exec=//p' "$file")"
	done
}

# ---- running ----

# one SUITE NAME COMMAND...: every way, and a line for each into results.SUITE.
one() {
	local suite=$1 name=$2 way dir launch status
	shift 2
	for way in glibc $WAYS; do
		case $way in
		glibc) launch=() ;;
		default) launch=("$RUN") ;;
		tick) launch=("$RUN" --tick 100us) ;;
		single) launch=("$RUN" --workers 1) ;;
		esac
		dir=$WORK/run/$suite/$name/$way
		status=0
		rm -rf "$dir" && mkdir -p "$dir" && cd "$dir" && : >Makefile # one reads it
		# shellcheck disable=SC2086 # words
		TMPDIR=$dir LD_LIBRARY_PATH=$WORK/glibc $CAGE timeout -k 5 240 "${launch[@]}" "$@" \
			>"$dir.log" 2>&1 </dev/null || status=$?
		cd "$WORK" && rm -rf "$dir"
		echo "$name $way $status" >>"$WORK/results.$suite"
		[ "$way" != glibc ] || [ "$status" -eq 0 ] || break
	done
}

# report SUITE: a row of the table in docs/runtime/preload.md, and what failed here alone.
report() {
	awk -v suite="$1" -v ways="$WAYS" -v known="${KNOWN[*]}" '
	BEGIN { n = split(known, k, " "); for (i = 1; i <= n; i++) is_known[k[i]] }
	$2 == "glibc" { tests++; good += $3 == 0; next }
	$3 == 0 { passed[$2]++; next }
	{ failed[$1] = failed[$1] " " $2; bad = bad || !($1 in is_known) }
	END {
		printf "%s: %d tests, with glibc %d", suite, tests, good
		n = split(ways, w, " ")
		for (i = 1; i <= n; i++) printf ", %s %d", w[i], passed[w[i]]
		print ""
		for (t in failed) print (t in is_known ? "  known: " : "  FAILED: ") t failed[t]
		exit bad
	}' "$WORK/results.$1"
}

tools/packages.sh build
tools/venv.sh run build
tools/compile.sh build-programs -Dbuildtype=release
mkdir -p "$WORK"
export -f one
[ $# -gt 0 ] || set -- glibc gnulib glib
bad=0
for suite in "$@"; do
	declare -F "suite_$suite" >/dev/null || die 2 "conformance.sh: no suite '$suite'; there are glibc, gnulib and glib"
	"suite_$suite" >"$WORK/tests.$suite"
	: >"$WORK/results.$suite"
	note "running the tests of $suite"
	grep -E "^(${ONLY:-.*}) " "$WORK/tests.$suite" |
		xargs -P 2 -L 1 bash -c "one $suite \"\$@\"" _ || :
	report "$suite" || bad=1
done
exit $bad
