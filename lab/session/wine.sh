#!/bin/sh
# Wine 10, which runs the Windows build on Linux. Debian 12 has an older Wine, so this
# one is in a Debian 13 of its own, in a cache:
#
#	hack/wine.sh build           make it, unless it exists
#	hack/wine.sh built           does it exist?
#	hack/wine.sh exec PROG ARG…  run a Windows program (for go test -exec)
#	hack/wine.sh session         keep one Wine running for several programs, until the
#	                             end of standard input (package session runs them)
#	hack/wine.sh clean           remove it
#
# hack/wine.sh calls this file, which is a part of module lab, so that the lab has it
# wherever it runs.
#
# The cache is $CSI_PROXY_WINE_DIR, else ${XDG_CACHE_HOME:-~/.cache}/csi-proxy/wine10;
# it takes 2 GB. exec does not change it: each run has its own writable layer in memory,
# Wine server, and namespaces for processes and mounts. So several runs can overlap, and
# nothing is left of a run when it ends. A run sees the project, read-only, at its path
# on drive Z: and works in the current directory.
#
# session needs no root where the kernel lets users make namespaces. Files of others
# cannot be Wine's own, so it makes a new C: then, which takes some seconds.
#
# A run is killed after $CSI_PROXY_WINE_LIMIT seconds (default 300). build and built exit
# with 77 if there is no Wine; the last line of their output has the reason.
set -eu

here=$(cd "$(dirname "$0")" && pwd)
self=$here/$(basename "$0")
project=$(cd "$here/../.." && pwd -P)
cache=${CSI_PROXY_WINE_DIR:-${XDG_CACHE_HOME:-$HOME/.cache}/csi-proxy/wine10}
root=$cache/root
recipe=1 # change the number to make the cache again
wine=/usr/lib/wine/wine64
unset TMPDIR # it does not exist below the root directories used here, and Wine 10 aborts where it is set

cannot() {
	echo "wine: $*"
	exit 77
}

built() { [ "$(cat "$root/etc/csi-proxy-recipe" 2>/dev/null)" = "$recipe" ]; }

build() {
	[ "$(uname -s)-$(uname -m)" = Linux-x86_64 ] || cannot "it needs Linux on x86_64; this is $(uname -s) on $(uname -m)"
	[ "$(id -u)" = 0 ] || cannot "it needs root, for chroot and mounts"
	mkdir -p "$cache/run"
	unshare --mount --pid --fork mount -t tmpfs tmpfs "$cache/run" 2>/dev/null ||
		cannot "this root may not mount (a container without privileges?)"
	grep -qw overlay /proc/filesystems || modprobe overlay 2>/dev/null || cannot "the kernel has no overlay file system"
	exec 9>"$cache/lock"
	flock 9
	if built; then
		echo "wine: $root exists"
		return
	fi
	command -v apt-get >/dev/null || cannot "Debian's tools make it, and there is no apt-get"
	mirror=$(mirror) || { code=$?; echo "$mirror"; exit "$code"; }
	echo "wine: making $root from $mirror; about two minutes"
	if ! command -v debootstrap >/dev/null; then
		DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends debootstrap >/dev/null 2>&1 ||
			{ apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends debootstrap; } >/dev/null ||
			cannot "debootstrap cannot be installed"
	fi
	rm -rf "$root" "$cache/new"
	if ! MIRROR=$mirror unshare --mount --propagation private --pid --fork --kill-child "$self" inside-build >"$cache/build.log" 2>&1; then
		tail -n 20 "$cache/build.log"
		echo "wine: making it failed; the whole log is in $cache/build.log"
		exit 1
	fi
	mv "$cache/new" "$root"
	echo "wine: made $root, $(du -sh "$root" | cut -f1)"
}

# mirror prints the mirror that apt uses for this release, if it has Debian 13.
mirror() {
	codename=$(. /etc/os-release && echo "${VERSION_CODENAME:-}")
	url=$(apt-get indextargets --format '$(REPO_URI) $(RELEASE) $(COMPONENT)' 2>/dev/null |
		awk -v r="$codename" '$2 == r && $3 == "main" {print $1; exit}')
	[ -n "$url" ] || cannot "apt's sources name no mirror for ${codename:-this system}"
	probe=$(mktemp -d)
	trap 'rm -rf "$probe"' EXIT
	/usr/lib/apt/apt-helper -o Acquire::Retries=3 -o APT::Sandbox::User=root download-file "${url%/}/dists/trixie/Release" "$probe/Release" >/dev/null 2>&1 ||
		cannot "the mirror that apt uses cannot be reached, or has no Debian 13 (trixie)"
	echo "${url%/}"
}

inside_build() {
	proxy=$(apt-config shell p Acquire::http::Proxy) && eval "$proxy"
	if [ -n "${p:-}" ]; then export http_proxy="$p"; fi
	new=$cache/new
	debootstrap --variant=minbase --include=ca-certificates trixie "$new" "$MIRROR"
	mount -t proc proc "$new/proc" 2>/dev/null || true # debootstrap may have left its own
	cat >"$new/etc/dpkg/dpkg.cfg.d/slim" <<-'SLIM'
		path-exclude /usr/share/doc/*
		path-exclude /usr/share/man/*
		path-exclude /usr/share/locale/*
	SLIM
	echo 'Acquire::Retries "3";' >"$new/etc/apt/apt.conf.d/retries"
	chroot "$new" sh -c 'apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends wine wine64 && apt-get clean && rm -rf /var/lib/apt/lists/*'
	chroot "$new" env HOME=/root WINEDEBUG=-all WINEPREFIX=/root/.wine sh -c "$wine wineboot -i && /usr/lib/wine/wineserver64 -w"
	test -f "$new/root/.wine/system.reg"
	echo "$recipe" >"$new/etc/csi-proxy-recipe"
}

# layers makes the root directory of a run in its mount namespace, $new: a writable
# layer in memory over the cache.
layers() {
	run=$cache/run
	mount -t tmpfs -o mode=755 tmpfs "$run"
	mkdir "$run/changes" "$run/work" "$run/root"
	new=$run/root
	mount -t overlay overlay -o "lowerdir=$root,upperdir=$run/changes,workdir=$run/work" "$new"
	mount -t proc proc "$new/proc"
	# Without root, /sys can only be bound with all that is mounted below it.
	mount --bind /sys "$new/sys" 2>/dev/null && mount -o remount,bind,ro "$new/sys" || mount --rbind /sys "$new/sys"
	mount -t tmpfs -o mode=755 tmpfs "$new/dev"
	mkdir -m 1777 "$new/dev/shm"
	for d in null zero full random urandom; do
		: >"$new/dev/$d"
		mount --bind "/dev/$d" "$new/dev/$d"
	done
}

# inside PROG DIR ARG… is the first process of a run's namespaces.
inside() {
	prog=$1 dir=$2
	shift 2
	layers
	mkdir -p "$new$project" "$new/prog"
	mount --bind "$project" "$new$project" && mount -o remount,bind,ro "$new$project"
	exe=/prog/$(basename "$prog")
	cp "$prog" "$new$exe"
	cd /
	exec chroot "$new" env HOME=/root XDG_RUNTIME_DIR=/tmp WINEPREFIX=/root/.wine WINEDEBUG="${WINEDEBUG:--all}" \
		sh -c 'cd "$1" && shift && "$@" </dev/null; exit $?' sh "$dir" "$wine" "$exe" "$@"
}

# inside_session is the first process of a session. It prints the paths of the root
# directory and of Wine's own directory in it.
inside_session() {
	layers
	mkdir -p "$new/lab"
	mount -t tmpfs -o mode=1777 tmpfs "$new/tmp" # without root, that of others cannot be written to
	prefix=/root/.wine
	[ -O "$new$prefix" ] || prefix=/lab/wine
	cd /
	chroot "$new" env -i PATH=/usr/bin:/bin HOME=/lab XDG_RUNTIME_DIR=/tmp WINEPREFIX="$prefix" WINEDEBUG=-all sh -c '
		mkdir -p "$WINEPREFIX" && /usr/lib/wine/wineserver64 -p || exit
		[ -f "$WINEPREFIX/system.reg" ] || '"$wine"' wineboot -i </dev/null >/dev/null 2>&1 || exit
		'"$wine"' wineboot </dev/null >/dev/null 2>&1' || { echo "wine: it cannot start" >&2; exit 1; }
	echo "$new $prefix"
	cat >/dev/null # until the caller closes it or ends
	exit
}

case ${1:-} in
build) build ;;
built)
	built || cannot "there is no Wine yet; make wine installs it"
	echo "wine: $root exists"
	;;
exec)
	shift
	built || { echo "wine: no Wine in $root; run hack/wine.sh build" >&2; exit 1; }
	prog=$(realpath "$1") dir=$(pwd -P)
	shift
	case $dir/ in "$project"/*) ;; *) echo "wine: a run sees only what is below $project, not $dir" >&2; exit 1 ;; esac
	# Each process of the chain dies with the one before it, so nothing outlives go test.
	exec setpriv --pdeathsig KILL timeout --signal KILL "${CSI_PROXY_WINE_LIMIT:-300}" setpriv --pdeathsig KILL \
		unshare --mount --propagation private --pid --fork --kill-child "$self" inside "$prog" "$dir" "$@"
	;;
session)
	built || cannot "there is no Wine in $cache; hack/wine.sh build, in a checkout of CSI Proxy, makes it" >&2
	as=
	[ "$(id -u)" = 0 ] || as="--user --map-root-user"
	# shellcheck disable=SC2086 # several arguments
	exec setpriv --pdeathsig KILL unshare $as --mount --propagation private --pid --fork --kill-child sh "$self" inside-session
	;;
clean)
	rm -rf --one-file-system "$cache"
	;;
inside-build) inside_build ;;
inside) shift && inside "$@" ;;
inside-session) inside_session ;;
*)
	sed -n '2,/^set/{/^set/!s/^# \{0,1\}//p}' "$0"
	exit 2
	;;
esac
