package main

import "testing"

func TestSubjectOf(t *testing.T) {
	const id = `\\?\Volume{12345678-90ab-4cde-8f01-234567890abc}\`
	for text, want := range map[string]subject{
		`C:\var\lib\kubelet\pods\a b`: {kind: aPath, text: `C:\var\lib\kubelet\pods\a b`},
		`/var/lib/kubelet/pods/x`:     {kind: aPath, text: `/var/lib/kubelet/pods/x`},
		`\\nas\data\team`:             {kind: aPath, text: `\\nas\data\team`},
		id:                            {kind: aVolume, text: id},
		`Volume{12345678-90AB-4cde-8f01-234567890abc}`: {kind: aVolume, text: id},
		`12`:                       {kind: aDisk, disk: 12},
		`disk 3`:                   {kind: aDisk, disk: 3},
		`\\.\PhysicalDrive4`:       {kind: aDisk, disk: 4},
		`disk/v1`:                  {kind: aPipe, text: "csi-proxy-disk-v1"},
		`csi-proxy-smb-v1beta1`:    {kind: aPipe, text: "csi-proxy-smb-v1beta1"},
		`\\.\pipe\csi-proxy-admin`: {kind: aPipe, text: "csi-proxy-admin"},
		`pvc-8f2c`:                 {kind: aName, text: "pvc-8f2c"},
		`12 GiB`:                   {kind: aName, text: "12 GiB"},
		// What kubectl describe prints.
		`map share "\\nas\logs": server "nas": share \\nas\data is mapped for user "ann"; Windows allows one user at a time`: {kind: aPath, text: `\\nas\data`},
		`MountVolume.MountDevice failed for volume "pvc-1" : rpc error: code = Internal desc = error mount volume to C:\\var\\lib\\kubelet\\plugins\\kubernetes.io\\csi\\pv\\pvc-1\\globalmount: The device is not ready.`: {
			kind: aPath, text: `C:\var\lib\kubelet\plugins\kubernetes.io\csi\pv\pvc-1\globalmount`},
		`MountVolume.SetUp failed for volume "pvc-1" : rpc error: code = Internal desc = stat "/var/lib/kubelet/pods/x/mount": gone`: {kind: aPath, text: `/var/lib/kubelet/pods/x/mount`},
		`rpc error: code = Internal desc = open \\.\pipe\csi-proxy-disk-v1: The system cannot find the file specified.`:              {kind: aPipe, text: "csi-proxy-disk-v1"},
		`rpc error: desc = get state of disk 7: the disk was not found`:                                                              {kind: aDisk, disk: 7},
		`rpc error: desc = format volume ` + id + `: denied`:                                                                         {kind: aVolume, text: id},
		`MountVolume.SetUp failed for volume "pvc-1" : context deadline exceeded`:                                                    {kind: aName, text: "pvc-1"},
	} {
		if got := subjectOf(text); got != want {
			t.Errorf("subjectOf(%s) = %+v, want %+v", text, got, want)
		}
	}
}
