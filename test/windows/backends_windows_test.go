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
	"github.com/kubernetes-csi/csi-proxy/v2/pkg/simnode/nodespec"
	"github.com/kubernetes-csi/csi-proxy/v2/pkg/smb"
	smbapi "github.com/kubernetes-csi/csi-proxy/v2/pkg/smb/hostapi"
	"github.com/kubernetes-csi/csi-proxy/v2/pkg/volume"
	volumeapi "github.com/kubernetes-csi/csi-proxy/v2/pkg/volume/hostapi"
)

var smbLocalhost = flag.Bool("smb-localhost", false, "let TestGlobalMappings make an account and a share on this machine")

// backendLog collects what a backend logs. If it logs that it is not the
// requested one, the test would compare a backend with itself.
type backendLog struct{ strings.Builder }

// backends are the two ways to format volumes and to map shares.
var backends = [...]backend.Name{backend.WMI, backend.Native}

// with returns this Windows with one backend for both. It fails the test if
// Windows does not have the backend.
func with(t *testing.T, b backend.Name) *node.Node {
	t.Helper()
	var log backendLog
	n, err := node.OpenNative(node.NativeOptions{
		Format: b, SMB: b, FormatHelper: *ours, Log: slog.New(slog.NewTextHandler(&log, &slog.HandlerOptions{Level: slog.LevelWarn})),
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if log.Len() > 0 {
			t.Errorf("log of backend %s:\n%s", b, log.String())
		}
	})
	return n
}

// Question: do both backends format, do they create the same file system, and
// does Windows agree? The tested sector sizes and disk sizes are those at which
// defaults change: clusters have 4 KiB up to 16 TiB, and more above.
func TestFormatBackendsAgree(t *testing.T) {
	administrator(t)
	if *ours == "" {
		t.Skip("needs -csi-proxy, the executable that becomes the format helper, on any Windows Server")
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
			d.disk.Content, d.disk.Partitions = nodespec.ContentGPT, []conformance.Partition{{}}
			var made [len(backends)]ntfsSizes
			var info [len(backends)]win32.VolumeInfo
			for i, b := range backends {
				n := with(t, b)
				v, err := volume.New(volumeapi.On(n))
				if err != nil {
					t.Fatal(err)
				}
				number, err := newDisks(t, n, v).Attach(d.disk)
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
			// It is different for every format.
			for i := range backends {
				info[i].SerialNumber = 0
			}
			if made[0] != made[1] || info[0] != info[1] {
				t.Errorf("%s created %+v, %+v\n%s created %+v, %+v", backends[0], made[0], info[0], backends[1], made[1], info[1])
			}
		})
	}
}

// ntfsSizes are the fields of NTFS_VOLUME_DATA_BUFFER that a format determines.
type ntfsSizes struct {
	sectors, clusters                                                   uint64
	perSector, perCluster, perFileRecordSegment, clustersPerFileRecords uint32
}

// ntfs returns NTFS's information about a volume.
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

// psMapping is a mapping in the output of Get-SmbGlobalMapping.
type psMapping struct {
	RemotePath     string
	Status         string
	RequirePrivacy bool
}

func psMappings(t *testing.T) []psMapping {
	t.Helper()
	var list []psMapping
	queryList(t, &list, "Get-SmbGlobalMapping", `@{RemotePath="$($_.RemotePath)"; Status="$($_.Status)"; RequirePrivacy=[bool]$_.RequirePrivacy}`)
	return list
}

// Questions: does each backend create a global mapping that Get-SmbGlobalMapping
// lists with its encryption, and through which files can be read? What is the
// error for a wrong password? Is a mapping of one backend seen and removed by the
// other? Which form of a link's target do programs resolve?
func TestGlobalMappings(t *testing.T) {
	administrator(t)
	if !*smbLocalhost {
		t.Skip("needs -smb-localhost, on any Windows Server: it creates an account and a share on the machine")
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
			for range 2 { // repeating it succeeds
				if _, err := s.NewSMBGlobalMapping(ctx, &request); err != nil {
					t.Fatal(err)
				}
			}
			list := psMappings(t)
			at := slices.IndexFunc(list, func(m psMapping) bool { return strings.EqualFold(m.RemotePath, share) })
			if at < 0 || list[at].Status != "OK" || !list[at].RequirePrivacy {
				t.Errorf("Get-SmbGlobalMapping returns %+v, want %s, OK, encrypted", list, share)
			}
			text, err := os.ReadFile(filepath.Join(link, "hello.txt"))
			if err != nil || string(text) != "hello" {
				t.Errorf("read through the link: %q, %v", text, err)
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
			if list := psMappings(t); slices.ContainsFunc(list, func(m psMapping) bool { return strings.EqualFold(m.RemotePath, share) }) {
				t.Errorf("after its removal Get-SmbGlobalMapping returns %+v", list)
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

// localShare creates an encrypted share of this machine, and the account that may
// use it. Both are removed after the test.
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
		query(t, &ok, `& { Get-SmbGlobalMapping | Where-Object RemotePath -eq '%[2]s' | Remove-SmbGlobalMapping -Force -ErrorAction SilentlyContinue; `+
			`Remove-SmbShare -Name %[1]s -Force -ErrorAction SilentlyContinue; Remove-LocalUser -Name %[1]s -ErrorAction SilentlyContinue; 'gone' }`, name, share)
	}
	remove() // leftovers of a run that was killed
	t.Cleanup(remove)
	query(t, &ok, `& { New-LocalUser -Name %[1]s -Password (ConvertTo-SecureString '%[2]s' -AsPlainText -Force) | Out-Null; `+
		`icacls '%[3]s' /grant '%[1]s:(OI)(CI)F' | Out-Null; `+
		`New-SmbShare -Name %[1]s -Path '%[3]s' -FullAccess %[1]s -EncryptData $true | Out-Null; 'made' }`, name, password, dir)
	return share, host + `\` + name, password
}
