package windows

import (
	"crypto/rand"
	"encoding/binary"
	"errors"
	"flag"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/kubernetes-csi/csi-proxy/v2/internal/node"
	"github.com/kubernetes-csi/csi-proxy/v2/internal/win32"
	"github.com/kubernetes-csi/csi-proxy/v2/internal/win32/native/backend"
	"github.com/kubernetes-csi/csi-proxy/v2/pkg/conformance"
	"github.com/kubernetes-csi/csi-proxy/v2/pkg/filesystem"
	filesystemapi "github.com/kubernetes-csi/csi-proxy/v2/pkg/filesystem/hostapi"
	"github.com/kubernetes-csi/csi-proxy/v2/pkg/hosterr"
	"github.com/kubernetes-csi/csi-proxy/v2/pkg/smb"
	smbapi "github.com/kubernetes-csi/csi-proxy/v2/pkg/smb/hostapi"
	"github.com/kubernetes-csi/csi-proxy/v2/pkg/volume"
	volumeapi "github.com/kubernetes-csi/csi-proxy/v2/pkg/volume/hostapi"
)

var smbLocalhost = flag.Bool("smb-localhost", false, "let TestGlobalMappings make an account and a share on this machine")

// told collects what a backend says in the log: that it is not the one that was
// asked for would make a comparison of it with itself.
type told struct{ strings.Builder }

// backends are the two ways to format and to map.
var backends = [...]backend.Name{backend.WMI, backend.Native}

// with is this Windows with one backend for both. The test fails if Windows does not
// have it.
func with(t *testing.T, b backend.Name) *node.Node {
	t.Helper()
	var log told
	n, err := node.OpenNative(node.NativeOptions{
		Format: b, SMB: b, FormatHelper: *ours, Log: slog.New(slog.NewTextHandler(&log, &slog.HandlerOptions{Level: slog.LevelWarn})),
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if log.Len() > 0 {
			t.Errorf("backend %s said:\n%s", b, log.String())
		}
	})
	return n
}

// Question: do both backends format, do they make the same file system, and does
// Windows agree with it? Sector sizes and sizes are those at which defaults differ:
// the cluster has 4 KiB up to 16 TiB, and more above.
func TestFormatBackendsAgree(t *testing.T) {
	administrator(t)
	if *ours == "" {
		t.Skip("needs the executable that becomes the format helper: -csi-proxy names it, on any Windows Server")
	}
	for _, d := range []struct {
		name string
		disk conformance.Disk
	}{
		{"100 MiB", conformance.Disk{Size: 100 << 20}},
		{"1 GiB", conformance.Disk{Size: 1 << 30}},
		{"1 GiB in sectors of 4096", conformance.Disk{Size: 1 << 30, SectorSize: 4096}},
		{"3 TiB", conformance.Disk{Size: 3 << 40}},
		{"32 TiB", conformance.Disk{Size: 32 << 40}},
	} {
		t.Run(d.name, func(t *testing.T) {
			d.disk.Table, d.disk.Partitions = conformance.GPT, []conformance.Partition{{}}
			var made [len(backends)]ntfsSizes
			var info [len(backends)]win32.VolumeInfo
			for i, b := range backends {
				n := with(t, b)
				v, err := volume.New(volumeapi.On(n))
				if err != nil {
					t.Fatal(err)
				}
				number, err := newMachine(t, n, v).Attach(d.disk)
				if err != nil {
					t.Fatal(err)
				}
				list, err := v.ListVolumesOnDisk(t.Context(), &volume.ListVolumesOnDiskRequest{DiskNumber: number})
				if err != nil || len(list.VolumeIDs) != 1 {
					t.Fatalf("%s: volumes %+v, %v", b, list, err)
				}
				id := list.VolumeIDs[0]
				if _, err := v.FormatVolume(t.Context(), &volume.FormatVolumeRequest{VolumeID: id}); err != nil {
					t.Fatalf("%s: %v", b, err)
				}
				made[i] = ntfs(t, n, id)
				if info[i], err = n.API.VolumeInformation(id); err != nil {
					t.Fatalf("%s: %v", b, err)
				}
			}
			// It differs from one format to the next.
			for i := range backends {
				info[i].SerialNumber = 0
			}
			if made[0] != made[1] || info[0] != info[1] {
				t.Errorf("%s made %+v, %+v\n%s made %+v, %+v", backends[0], made[0], info[0], backends[1], made[1], info[1])
			}
		})
	}
}

// ntfsSizes are the fields of NTFS_VOLUME_DATA_BUFFER that a format decides.
type ntfsSizes struct {
	sectors, clusters                                                   uint64
	perSector, perCluster, perFileRecordSegment, clustersPerFileRecords uint32
}

// ntfs is what NTFS tells of a volume.
func ntfs(t *testing.T, n *node.Node, id string) ntfsSizes {
	t.Helper()
	h, err := n.API.CreateFile(strings.TrimSuffix(id, `\`), win32.GENERIC_READ, win32.FILE_SHARE_READ|win32.FILE_SHARE_WRITE, win32.OPEN_EXISTING, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer n.API.CloseHandle(h)
	b := make([]byte, win32.SizeofNTFSVolumeData)
	size, err := n.API.DeviceIoControl(h, win32.FSCTL_GET_NTFS_VOLUME_DATA, nil, b)
	if err != nil || size < len(b) {
		t.Fatalf("FSCTL_GET_NTFS_VOLUME_DATA of %s: %d bytes, %v", id, size, err)
	}
	le := binary.LittleEndian
	return ntfsSizes{le.Uint64(b[8:]), le.Uint64(b[16:]), le.Uint32(b[40:]), le.Uint32(b[44:]), le.Uint32(b[48:]), le.Uint32(b[52:])}
}

// mappingAsTold is what Get-SmbGlobalMapping tells of a mapping.
type mappingAsTold struct {
	RemotePath     string
	Status         string
	RequirePrivacy bool
}

func mappingsAsTold(t *testing.T) []mappingAsTold {
	t.Helper()
	var list []mappingAsTold
	askList(t, &list, "Get-SmbGlobalMapping", `@{RemotePath="$($_.RemotePath)"; Status="$($_.Status)"; RequirePrivacy=[bool]$_.RequirePrivacy}`)
	return list
}

// Questions: is a mapping of either backend a global one, that Get-SmbGlobalMapping
// lists with its encryption, and that files can be read through; which error is a
// wrong password; is a mapping of one backend seen and removed by the other; and which
// form of the link's target do programs resolve?
func TestGlobalMappings(t *testing.T) {
	administrator(t)
	if !*smbLocalhost {
		t.Skip("makes an account and a share on the machine: -smb-localhost allows it, on any Windows Server")
	}
	share, user, password := localShare(t)
	for i, b := range backends {
		t.Run(string(b), func(t *testing.T) {
			s := smbOn(t, with(t, b))
			ctx := t.Context()
			link := filepath.Join(linkDirectory(t), "mount")
			request := smb.NewSMBGlobalMappingRequest{RemotePath: share, LocalPath: link, Username: user, Password: "not " + password}
			if _, err := s.NewSMBGlobalMapping(ctx, &request); !errors.Is(err, hosterr.ErrPermissionDenied) {
				t.Errorf("with a wrong password: %v, want an error of credentials", err)
			}
			request.Password = password
			for range 2 { // once more is success
				if _, err := s.NewSMBGlobalMapping(ctx, &request); err != nil {
					t.Fatal(err)
				}
			}
			list := mappingsAsTold(t)
			at := slices.IndexFunc(list, func(m mappingAsTold) bool { return strings.EqualFold(m.RemotePath, share) })
			if at < 0 || list[at].Status != "OK" || !list[at].RequirePrivacy {
				t.Errorf("Get-SmbGlobalMapping tells %+v, want %s, OK, encrypted", list, share)
			}
			text, err := os.ReadFile(filepath.Join(link, "hello.txt"))
			if err != nil || string(text) != "hello" {
				t.Errorf("through the link: %q, %v", text, err)
			}
			target, err := os.Readlink(link)
			t.Logf("the link's target reads as %q, %v", target, err)

			if err := os.Remove(link); err != nil {
				t.Error(err)
			}
			other := smbOn(t, with(t, backends[1-i]))
			if _, err := other.RemoveSMBGlobalMapping(ctx, &smb.RemoveSMBGlobalMappingRequest{RemotePath: share}); err != nil {
				t.Errorf("removed by the other backend: %v", err)
			}
			if list := mappingsAsTold(t); slices.ContainsFunc(list, func(m mappingAsTold) bool { return strings.EqualFold(m.RemotePath, share) }) {
				t.Errorf("after its removal Get-SmbGlobalMapping tells %+v", list)
			}
		})
	}
}

func smbOn(t *testing.T, n *node.Node) smb.Interface {
	t.Helper()
	f, err := filesystem.New(filesystemapi.On(n))
	if err != nil {
		t.Fatal(err)
	}
	s, err := smb.New(smbapi.On(n), f)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func linkDirectory(t *testing.T) string {
	t.Helper()
	const root = `C:\var\lib\kubelet\plugins\csi-proxy-test-smb`
	if err := os.MkdirAll(root, 0o755); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(root) })
	return root
}

// localShare makes an encrypted share of this machine, and the account that may use
// it, both gone after the test.
func localShare(t *testing.T) (share, user, password string) {
	t.Helper()
	const name = "csi-proxy-test"
	host, err := os.Hostname()
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "hello.txt"), []byte("hello"), 0o600); err != nil {
		t.Fatal(err)
	}
	password = "Aa1-" + rand.Text()
	var ok string
	share = `\\` + host + `\` + name
	remove := func() {
		ask(t, &ok, `& { Get-SmbGlobalMapping | Where-Object RemotePath -eq '%[2]s' | Remove-SmbGlobalMapping -Force -ErrorAction SilentlyContinue; `+
			`Remove-SmbShare -Name %[1]s -Force -ErrorAction SilentlyContinue; Remove-LocalUser -Name %[1]s -ErrorAction SilentlyContinue; 'gone' }`, name, share)
	}
	remove() // what a run that was killed left
	t.Cleanup(remove)
	ask(t, &ok, `& { New-LocalUser -Name %[1]s -Password (ConvertTo-SecureString '%[2]s' -AsPlainText -Force) | Out-Null; `+
		`icacls '%[3]s' /grant '%[1]s:(OI)(CI)F' | Out-Null; `+
		`New-SmbShare -Name %[1]s -Path '%[3]s' -FullAccess %[1]s -EncryptData $true | Out-Null; 'made' }`, name, password, dir)
	return share, host + `\` + name, password
}
