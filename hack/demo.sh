#!/bin/sh
# Drives a volume through its life on a simulated node, as a driver does: stage, publish, expand,
# unpublish, unstage. It prints each call with its answer, and checks what matters.
set -eu
cd "$(dirname "$0")/.."
PATH=$PWD/bin:$PATH:/sbin:/usr/sbin

dir=$(mktemp -d)
export CSI_PROXY_DIR="$dir/run"
mkdir "$CSI_PROXY_DIR"
cat >"$dir/node.yaml" <<'EOF'
disks:
- content: system
- {id: demo, size: 1GiB, serial: DEMO0001}
EOF
csi-proxy-sim -node-config "$dir/node.yaml" -state-dir "$dir/node" 2>"$dir/log" &
daemon=$!
trap 'kill $daemon 2>/dev/null; wait $daemon || true; rm -rf "$dir"' EXIT
csi-proxyctl versions --wait >/dev/null || { cat "$dir/log" >&2; exit 1; }

say() { printf '\n\033[1m%s\033[0m\n' "$*"; }
call() { # GROUP/VERSION METHOD FIELD=VALUE...
	printf '> %s\n' "$*"
	answer=$(csi-proxyctl call "$@") || exit 1
	printf '%s\n' "$answer"
}
answers() { # TEXT: fails unless the last answer has it
	case $answer in *"$1"*) ;; *) echo "demo: the answer should have $1" >&2; exit 1 ;; esac
}
field() { printf '%s\n' "$answer" | sed -n "s/.*\"$1\": *\"\{0,1\}\([^\",]*\).*/\1/p"; }

staging='C:\var\lib\kubelet\plugins\kubernetes.io\csi\demo\globalmount'
pod='C:\var\lib\kubelet\pods\8f4c\volumes\kubernetes.io~csi\pvc-demo'

say 'Stage: find the disk, partition, format and mount it'
call disk/v1 ListDiskIDs
answers DEMO0001
call disk/v1 PartitionDisk disk_number=1
call volume/v1 ListVolumesOnDisk disk_number=1
volume=$(printf '%s' "$answer" | grep -o 'Volume{[^}]*}')
volume="\\\\?\\$volume\\"
call volume/v1 IsVolumeFormatted "volume_id=$volume"
call volume/v1 FormatVolume "volume_id=$volume"
call volume/v1 IsVolumeFormatted "volume_id=$volume"
answers true
call filesystem/v1 Mkdir "path=$staging"
call volume/v1 MountVolume "volume_id=$volume" "target_path=$staging"

say 'Publish: link it into the pod'
call filesystem/v1 Mkdir "path=$pod"
call filesystem/v1 CreateSymlink "source_path=$staging" "target_path=$pod\\mount"
call filesystem/v1 IsSymlink "path=$pod\\mount"
answers true

say 'Expand: the storage makes the disk larger'
call volume/v1 GetVolumeStats "volume_id=$volume"
before=$(field total_bytes)
csi-proxyctl node GrowDisk disk_number=1 size_bytes=2GiB
call disk/v1 Rescan
call volume/v1 ResizeVolume "volume_id=$volume"
call volume/v1 GetVolumeStats "volume_id=$volume"
[ "$(field total_bytes)" -gt "$before" ] || { echo 'demo: the volume did not grow' >&2; exit 1; }

say 'Unpublish and unstage: remove the link, unmount, take the disk offline'
call filesystem/v1 Rmdir "path=$pod\\mount"
call volume/v1 UnmountVolume "volume_id=$volume" "target_path=$staging"
call filesystem/v1 Rmdir "path=$staging"
call disk/v1 SetDiskState disk_number=1 is_online=false

say 'What is left'
csi-proxyctl disk list
csi-proxyctl doctor || true
if command -v sgdisk >/dev/null; then
	sgdisk -v "$(find "$dir/node" -name '*demo*' -type f | head -1)" | tail -3
fi
echo
echo 'All passed.'
