package wiretest

import "github.com/kubernetes-csi/csi-proxy/v2/internal/wire"

// Groups are fakes of all services.
func Groups(answer Answer) wire.Groups {
	return wire.Groups{
		Disk:       &fakeDisk{answer},
		Filesystem: &fakeFilesystem{answer},
		ISCSI:      &fakeISCSI{answer},
		SMB:        &fakeSMB{answer},
		System:     &fakeSystem{answer},
		Volume:     &fakeVolume{answer},
	}
}
