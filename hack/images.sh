#!/bin/sh
# Disk images that Windows and others made, for test/images. They are test data of Debian
# source packages:
#
#	hack/images.sh get    download them, unless they are there
#	hack/images.sh dir    print the cache
#
# The cache is $CSI_PROXY_IMAGES_DIR, else ${XDG_CACHE_HOME:-~/.cache}/csi-proxy/images; it
# takes 1.5 MB. test/images/testdata/images.sha256 says what belongs there. get downloads
# 30 MB. It needs apt-get and no root: apt works in a temporary directory, with the
# machine's sources as source packages, and changes nothing of the machine's. It exits with
# 77 if images are missing in the end; the last line of its output has the reason.
set -eu

project=$(cd "$(dirname "$0")/.." && pwd -P)
list=$project/test/images/testdata/images.sha256
cache=${CSI_PROXY_IMAGES_DIR:-${XDG_CACHE_HOME:-$HOME/.cache}/csi-proxy/images}

cannot() {
	echo "images: $*"
	exit 77
}

# keep removes every file of the cache that is not as the list has it.
keep() {
	(cd "$cache" && sha256sum --check "$list" 2>/dev/null | sed -n 's/: FAILED$//p' | xargs -r rm -f --)
}

# missing prints the packages whose files are not all in the cache.
missing() {
	while read -r _ file; do
		[ -f "$cache/$file" ] || echo "${file%%/*}"
	done <"$list" | sort -u
}

# configure makes apt's configuration in $work. Of the machine's, it has what is about
# downloads, such as a proxy, and its sources.
configure() {
	mkdir -p "$work/parts" "$work/state/lists/partial" "$work/cache/archives/partial"
	eval "$(apt-config shell sources Dir::Etc::sourcelist/f parts Dir::Etc::sourceparts/d)"
	for f in "$sources" "$parts"/*.list; do
		[ ! -f "$f" ] || sed -n 's/^[[:space:]]*deb[[:space:]]/deb-src /p' "$f" >"$work/parts/$(basename "$f")"
	done
	for f in "$parts"/*.sources; do
		[ ! -f "$f" ] || sed 's/^Types:.*/Types: deb-src/' "$f" >"$work/parts/$(basename "$f")"
	done
	{
		apt-config dump | grep '^Acquire::' | grep -v '^Acquire::IndexTargets'
		cat <<-CONF
			Acquire::Retries "3";
			APT::Sandbox::User "";
			Dir::Etc::main "/dev/null";
			Dir::Etc::parts "/dev/null";
			Dir::Etc::sourcelist "/dev/null";
			Dir::Etc::sourceparts "$work/parts";
			Dir::State "$work/state";
			Dir::Cache "$work/cache";
		CONF
	} >"$work/apt.conf"
}

# get_package downloads a source package and copies its images to the cache.
get_package() {
	mkdir "$work/$1" "$work/$1.new"
	(cd "$work/$1" && apt-get source -qq --download-only --tar-only "$1" >>"$work/log" 2>&1) || return 1
	awk -v p="$1/" 'index($2, p) == 1 {print "*/" substr($2, length(p) + 1)}' "$list" >"$work/members"
	tar -x -f "$work/$1"/*.orig.tar.* -C "$work/$1.new" --strip-components=1 --wildcards -T "$work/members" 2>/dev/null || true # keep looks at what came
	mkdir -p "$cache/$1"
	cp -R "$work/$1.new/." "$cache/$1"
	keep
}

get() {
	mkdir -p "$cache"
	exec 9>"$cache/lock"
	flock 9
	keep
	if [ -z "$(missing)" ]; then
		echo "images: all are in $cache"
		return
	fi
	for p in apt-get xz tar sha256sum; do
		command -v $p >/dev/null || cannot "Debian's source packages have them, and there is no $p"
	done
	work=$(mktemp -d)
	trap 'rm -rf "$work"' EXIT
	configure
	export APT_CONFIG="$work/apt.conf"
	apt-get update -qq >"$work/log" 2>&1 || true # one of several sources may fail
	for p in $(missing); do
		get_package "$p" || true
	done
	[ -z "$(missing)" ] || cannot "missing, or other than expected: those of $(missing | xargs); apt: $(grep -m 1 '^[EW]:' "$work/log" || echo no error)"
	echo "images: got them into $cache"
}

case ${1:-} in
get) get ;;
dir) echo "$cache" ;;
*) sed -n '2,/^set /s/^# \{0,1\}//p' "$0" | sed '/^set/d' ;;
esac
