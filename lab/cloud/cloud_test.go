package cloud_test

import (
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/kubernetes-csi/csi-proxy/lab/cloud"
	"github.com/kubernetes-csi/csi-proxy/v2/pkg/disk"
	"github.com/kubernetes-csi/csi-proxy/v2/pkg/simnode"
	"github.com/kubernetes-csi/csi-proxy/v2/pkg/smb"
)

const gib = 1 << 30

var writer = &csi.VolumeCapability{AccessMode: &csi.VolumeCapability_AccessMode{Mode: csi.VolumeCapability_AccessMode_SINGLE_NODE_WRITER}}

// seeing returns a node that sees disks at once. When it sees them is not the question here.
func seeing(t *testing.T) *simnode.Node {
	t.Helper()
	return simnode.New(t, func(c *simnode.Config) { c.Attach = "seen" })
}

func named(t *testing.T, name string) cloud.Cloud {
	t.Helper()
	c, err := cloud.Named(name)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func create(t *testing.T, c *cloud.Controller, name string) *csi.Volume {
	t.Helper()
	out, err := c.CreateVolume(t.Context(), &csi.CreateVolumeRequest{
		Name: name, CapacityRange: &csi.CapacityRange{RequiredBytes: gib}, VolumeCapabilities: []*csi.VolumeCapability{writer},
	})
	if err != nil {
		t.Fatal(err)
	}
	return out.GetVolume()
}

func publish(t *testing.T, c *cloud.Controller, id string) map[string]string {
	t.Helper()
	out, err := c.ControllerPublishVolume(t.Context(), &csi.ControllerPublishVolumeRequest{VolumeId: id, NodeId: "n", VolumeCapability: writer})
	if err != nil {
		t.Fatal(err)
	}
	return out.GetPublishContext()
}

// number returns the number of the disk for which is returns true.
func number(t *testing.T, n *simnode.Node, is func(number uint32, id *disk.DiskIDs, at *disk.DiskLocation) bool) (found []uint32) {
	t.Helper()
	ids, err := n.Disk().ListDiskIDs(t.Context(), &disk.ListDiskIDsRequest{})
	if err != nil {
		t.Fatal(err)
	}
	places, err := n.Disk().ListDiskLocations(t.Context(), &disk.ListDiskLocationsRequest{})
	if err != nil {
		t.Fatal(err)
	}
	for d, id := range ids.DiskIDs {
		at := places.DiskLocations[d]
		if at == nil {
			at = &disk.DiskLocation{}
		}
		if is(d, id, at) {
			found = append(found, d)
		}
	}
	return found
}

// A driver finds the disks of three volumes by what their cloud presents.
// For gce-nvme see TestNVMeNamespaces, for azure-nvme TestAzureNVMeDisksHaveNoLUN.
func TestPresetsAreFound(t *testing.T) {
	type finder func(v *csi.Volume, publish map[string]string, id *disk.DiskIDs, at *disk.DiskLocation) bool
	serialHasID := func(v *csi.Volume, _ map[string]string, id *disk.DiskIDs, _ *disk.DiskLocation) bool {
		return strings.Contains(id.SerialNumber, strings.ReplaceAll(v.GetVolumeId(), "-", ""))
	}
	for name, is := range map[string]finder{
		"ebs": serialHasID, "ebs-scsi": serialHasID,
		"gce": func(v *csi.Volume, _ map[string]string, id *disk.DiskIDs, _ *disk.DiskLocation) bool {
			words := strings.Fields(id.Page83)
			return len(words) == 2 && words[0] == "Google" && strings.HasSuffix(v.GetVolumeId(), "/"+words[1])
		},
		// As Azure's driver: whichever disk has the LUN. The machine's temporary disk has it too.
		"azure": func(_ *csi.Volume, p map[string]string, _ *disk.DiskIDs, at *disk.DiskLocation) bool {
			return at.LUNID == p["LUN"]
		},
		"vsphere": func(_ *csi.Volume, p map[string]string, id *disk.DiskIDs, _ *disk.DiskLocation) bool {
			return id.Page83 == p["diskUUID"]
		},
		"example": func(_ *csi.Volume, p map[string]string, id *disk.DiskIDs, _ *disk.DiskLocation) bool {
			return id.SerialNumber == p["serialNumber"]
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			// The default node's blank disks have LUNs as well.
			n := simnode.New(t, func(c *simnode.Config) {
				c.Attach = "seen"
				local := simnode.Disk{Bus: "nvme", Size: gib, Location: "Integrated : Bus 1 : Device 0 : Function 0 : Adapter 0"}
				c.Disks = []simnode.Disk{{Content: "system"}, local, local}
			})
			c := cloud.New(n, named(t, name))
			volumes := map[*csi.Volume]map[string]string{}
			var order []*csi.Volume
			for _, v := range []string{"a", "b", "c"} {
				volume := create(t, c, v)
				order = append(order, volume)
				volumes[volume] = publish(t, c, volume.GetVolumeId())
			}
			if name == "azure" { // Windows has the temporary disk's volume since it started
				if err := n.AwaitDisk(3); err != nil {
					t.Fatal(err)
				}
			}
			want := uint32(3) // 0, 1 and 2 are the node's own
			if name == "azure" {
				want++ // and 3 is the temporary one
			}
			for i, v := range order {
				found := number(t, n, func(_ uint32, id *disk.DiskIDs, at *disk.DiskLocation) bool { return is(v, volumes[v], id, at) })
				if want := want + uint32(i); len(found) != 1 || found[0] != want {
					t.Errorf("volume %d: found disks %v, want [%d]", i, found, want)
				}
			}
		})
	}
}

// Azure's driver cannot find these disks: it looks for the LUN, and no method of the
// published API returns the number of a namespace.
func TestAzureNVMeDisksHaveNoLUN(t *testing.T) {
	n := seeing(t)
	c := cloud.New(n, named(t, "azure-nvme"))
	var luns []string
	for _, name := range []string{"a", "b", "c"} {
		luns = append(luns, publish(t, c, create(t, c, name).GetVolumeId())["LUN"])
	}
	if want := []string{"0", "1", "2"}; !slices.Equal(luns, want) {
		t.Errorf("the cloud names the LUNs %q, want %q", luns, want)
	}
	without := number(t, n, func(_ uint32, _ *disk.DiskIDs, at *disk.DiskLocation) bool { return at.LUNID == "" })
	slices.Sort(without)
	if want := []uint32{3, 4, 5}; !slices.Equal(without, want) {
		t.Errorf("disks without a LUN: %v, want those of the cloud, %v", without, want)
	}
}

// The metadata server of GCE names the disks that the node has, as GCE PD looks for them.
func TestNVMeNamespaces(t *testing.T) {
	n := seeing(t)
	c := cloud.New(n, named(t, "gce-nvme"))
	var ids []string
	for _, name := range []string{"a", "b", "c"} {
		id := create(t, c, name).GetVolumeId()
		publish(t, c, id)
		ids = append(ids, id)
	}
	server := httptest.NewServer(c.Metadata())
	defer server.Close()
	var disks []struct {
		DeviceName string
		Interface  string
		Namespace  uint64 `json:"nvmeNamespaceIdentifier"`
	}
	// Through the proxy, for the address that the driver asks.
	proxy, err := url.Parse(server.URL)
	if err != nil {
		t.Fatal(err)
	}
	client := &http.Client{Transport: &http.Transport{Proxy: http.ProxyURL(proxy)}}
	answer, err := client.Get("http://metadata.google.internal/computeMetadata/v1/instance/disks/?recursive=true")
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	if err := json.NewDecoder(answer.Body).Decode(&disks); err != nil {
		t.Fatal(err)
	}
	if len(disks) != 1+len(ids) {
		t.Fatalf("the metadata server lists %+v, want the disk of the machine and those of %q", disks, ids)
	}
	for i, id := range ids {
		of := disks[1+i]
		if of.Interface != "NVME" || !strings.HasSuffix(id, "/"+of.DeviceName) {
			t.Fatalf("disk %d of the metadata server is %+v, want that of %s", 1+i, of, id)
		}
		var serials []string
		found := number(t, n, func(_ uint32, d *disk.DiskIDs, _ *disk.DiskLocation) bool {
			serials = append(serials, d.SerialNumber)
			digits, ok := strings.CutSuffix(d.SerialNumber, "_0000_0000_0000_0000.")
			namespace, err := strconv.ParseUint(strings.ReplaceAll(digits, "_", ""), 16, 64)
			return ok && err == nil && namespace == of.Namespace
		})
		if want := uint32(3 + i); len(found) != 1 || found[0] != want {
			t.Errorf("disks with the namespace %d: %v, want [%d]; serial numbers: %q", of.Namespace, found, want, serials)
		}
	}
}

func TestMetadata(t *testing.T) {
	server := httptest.NewServer(cloud.New(simnode.New(t), named(t, "ebs")).Metadata())
	defer server.Close()
	for _, c := range []struct{ method, path, want string }{
		{"GET", "/computeMetadata/v1/instance/zone", "projects/123456789012/zones/us-central1-a"},
		{"GET", "/computeMetadata/v1/project/project-id", "lab-project"},
		{"PUT", "/latest/api/token", "token"},
		{"GET", "/latest/dynamic/instance-identity/document", `"instanceId":"i-0123456789abcdef0"`},
		{"GET", "/latest/meta-data/block-device-mapping/", "ami"},
		{"GET", "/latest/meta-data/nothing", "404"},
		{"POST", "/latest/meta-data/instance-id", "want GET"},
	} {
		in, err := http.NewRequest(c.method, server.URL+c.path, nil)
		if err != nil {
			t.Fatal(err)
		}
		answer, err := http.DefaultClient.Do(in)
		if err != nil {
			t.Fatal(err)
		}
		text, err := io.ReadAll(answer.Body)
		answer.Body.Close()
		if err != nil || !strings.Contains(string(text), c.want) || answer.Header.Get("Metadata-Flavor") != "Google" {
			t.Errorf("%s %s: %q, %v, %v, want %q", c.method, c.path, text, answer.Header, err, c.want)
		}
	}
}

// A volume keeps its disk: detached, expanded and attached again, it has its content.
func TestDiskOfAVolume(t *testing.T) {
	n := seeing(t)
	c := cloud.New(n, named(t, "gce"))
	id := create(t, c, "a").GetVolumeId()
	if again := create(t, c, "a").GetVolumeId(); again != id || named(t, "gce").VolumeID("a") != id {
		t.Errorf("CreateVolume returns %q and then %q, and VolumeID %q, want them to be equal", id, again, named(t, "gce").VolumeID("a"))
	}
	publish(t, c, id)
	publish(t, c, id)
	if _, err := n.Disk().PartitionDisk(t.Context(), &disk.PartitionDiskRequest{DiskNumber: 3}); err != nil {
		t.Fatal(err)
	}
	if _, err := c.DeleteVolume(t.Context(), &csi.DeleteVolumeRequest{VolumeId: id}); status.Code(err) != codes.FailedPrecondition {
		t.Errorf("DeleteVolume while it is attached: %v, want FailedPrecondition", err)
	}
	for range 2 {
		if _, err := c.ControllerUnpublishVolume(t.Context(), &csi.ControllerUnpublishVolumeRequest{VolumeId: id}); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := c.ControllerExpandVolume(t.Context(), &csi.ControllerExpandVolumeRequest{VolumeId: id, CapacityRange: &csi.CapacityRange{RequiredBytes: 2 * gib}}); err != nil {
		t.Fatal(err)
	}
	publish(t, c, id)
	state, err := n.Show()
	if err != nil {
		t.Fatal(err)
	}
	if len(state.Disks) != 4 || state.Disks[3].Style != "GPT" || state.Disks[3].Size != 2*gib {
		t.Errorf("the node has %+v, want the partitioned disk with 2 GiB as its fourth", state.Disks)
	}
}

// The node reaches the shares of volumes with the secrets of their cloud.
func TestShares(t *testing.T) {
	for name, remote := range map[string]func(v *csi.Volume) string{
		"smb": func(v *csi.Volume) string { return v.GetVolumeContext()["source"] },
		"smb-subdir": func(v *csi.Volume) string {
			return v.GetVolumeContext()["source"] + "/" + v.GetVolumeContext()["subDir"]
		},
		"example-smb": func(v *csi.Volume) string {
			part := strings.Split(v.GetVolumeId(), "#")
			return "//" + strings.Join(part[1:], "/")
		},
		"azurefile": func(v *csi.Volume) string {
			return "//" + v.GetVolumeContext()["storageAccount"] + ".file.core.windows.net/" + v.GetVolumeContext()["shareName"]
		},
	} {
		n := simnode.New(t, func(c *simnode.Config) { c.SMBServers = cloud.SMBServers() })
		preset := named(t, name)
		v := create(t, cloud.New(n, preset), "a")
		if again := create(t, cloud.New(n, preset), "a"); again.GetVolumeId() != v.GetVolumeId() {
			t.Errorf("%s: CreateVolume returns %q and then %q", name, v.GetVolumeId(), again.GetVolumeId())
		}
		secrets := preset.Secrets()
		user, password := secrets["username"], secrets["password"]
		if name == "azurefile" {
			user, password = `AZURE\`+secrets["azurestorageaccountname"], secrets["azurestorageaccountkey"]
		}
		const staging = `C:\var\lib\kubelet\plugins\a`
		in := &smb.NewSMBGlobalMappingRequest{RemotePath: strings.ReplaceAll(remote(v), "/", `\`), LocalPath: staging, Username: user, Password: password}
		if _, err := n.SMB().NewSMBGlobalMapping(t.Context(), in); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// A disk that is gone from the machine is detached.
func TestGoneDisk(t *testing.T) {
	n := seeing(t)
	c := cloud.New(n, named(t, "ebs"))
	id := create(t, c, "a").GetVolumeId()
	publish(t, c, id)
	if err := n.DetachDisk(3); err != nil {
		t.Fatal(err)
	}
	if _, err := c.ControllerUnpublishVolume(t.Context(), &csi.ControllerUnpublishVolumeRequest{VolumeId: id, NodeId: "n"}); err != nil {
		t.Errorf("ControllerUnpublishVolume of a disk that is gone: %v", err)
	}
	publish(t, c, id)
}

func TestUnknownCloud(t *testing.T) {
	if _, err := cloud.Named("ibm"); err == nil || !strings.Contains(err.Error(), "azure-nvme") {
		t.Errorf("Named of an unknown cloud: %v, want an error that lists the known ones", err)
	}
}
