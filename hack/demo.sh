#!/bin/sh
# Drives volumes through their lives on a simulated node, prints each call, and shows the
# disk at the end. The exit code is 0 if every check passed.
set -eu
cd "$(dirname "$0")/.."

if ! command -v sgdisk >/dev/null; then
	if [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null; then
		echo "demo: sgdisk is missing; installing the package gdisk"
		apt-get install -y -qq gdisk >/dev/null 2>&1 ||
			{ apt-get update -qq && apt-get install -y -qq gdisk; } >/dev/null ||
			{ echo "demo: gdisk cannot be installed" >&2; exit 1; }
	else
		echo "demo: sgdisk is needed to check the disk; install the package gdisk" >&2
		exit 1
	fi
fi

if [ ! -x bin/csi-proxy-sim ]; then
	CGO_ENABLED=0 ${GO:-go} build -o bin/ ./cmd/csi-proxy-sim
fi
exec ${GO:-go} run ./hack/demo -csi-proxy-sim bin/csi-proxy-sim
