package operations_test

import (
	"fmt"
	"reflect"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/kubernetes-csi/csi-proxy/v2/internal/win32"
	"github.com/kubernetes-csi/csi-proxy/v2/pkg/disk"
	"github.com/kubernetes-csi/csi-proxy/v2/pkg/filesystem"
	"github.com/kubernetes-csi/csi-proxy/v2/pkg/iscsi"
	"github.com/kubernetes-csi/csi-proxy/v2/pkg/simnode/nodespec"
	"github.com/kubernetes-csi/csi-proxy/v2/pkg/smb"
	"github.com/kubernetes-csi/csi-proxy/v2/pkg/system"
	"github.com/kubernetes-csi/csi-proxy/v2/pkg/volume"
)

// cost is how many calls of Windows an operation makes.
type cost struct {
	calls   int64 // on a node without other disks
	reads   int64 // how many of them read a disk
	perDisk int64 // how many more it may make for each other disk with a volume
}

// costs are those of operations by their names. docs/run/performance.md has them in words.
var costs = map[string]cost{
	"PartitionDisk":                              {calls: 383, reads: 230, perDisk: 8},
	"PartitionDisk again":                        {calls: 52, perDisk: 8},
	"SetDiskState offline":                       {calls: 54, perDisk: 4},
	"SetDiskState offline of a blank disk":       {calls: 45, perDisk: 4},
	"SetDiskState online":                        {calls: 37, perDisk: 4},
	"SetDiskState online again":                  {calls: 30, perDisk: 4},
	"SetDiskState online of a clone":             {calls: 133, perDisk: 12},
	"SetDiskReadOnly":                            {calls: 37},
	"SetDiskReadOnly writable":                   {calls: 13},
	"GetDiskReadOnly":                            {calls: 4},
	"GetDiskState":                               {calls: 3},
	"GetDiskStats":                               {calls: 3},
	"ListDiskIDs":                                {calls: 12, perDisk: 5},
	"ListDiskLocations":                          {calls: 38, perDisk: 10},
	"Rescan":                                     {calls: 27, perDisk: 8},
	"FormatVolume":                               {calls: 365, reads: 218, perDisk: 8},
	"FormatVolume again":                         {calls: 11},
	"IsVolumeFormatted":                          {calls: 4},
	"IsVolumeFormatted of an unformatted volume": {calls: 126, reads: 109},
	"ResizeVolume":                               {calls: 409, reads: 318, perDisk: 4},
	"ResizeVolume again":                         {calls: 19},
	"GetVolumeStats":                             {calls: 4},
	"WriteVolumeCache":                           {calls: 6},
	"ListVolumesOnDisk":                          {calls: 17, perDisk: 4},
	"ListVolumesOnDisk of a blank disk":          {calls: 13, perDisk: 4},
	"GetDiskNumberFromVolumeID":                  {calls: 3},
	"MountVolume":                                {calls: 61, perDisk: 4},
	"UnmountVolume":                              {calls: 22},
	"GetVolumeIDFromTargetPath":                  {calls: 12},
	"GetClosestVolumeIDFromTargetPath":           {calls: 12},
	"GetPathKind":                                {calls: 9},
	"GetPathKind of a link":                      {calls: 11},
	"GetPathStats":                               {calls: 25},
	"PathExists":                                 {calls: 5},
	"PathValid":                                  {calls: 1},
	"IsSymlink":                                  {calls: 10},
	"Mkdir":                                      {calls: 15},
	"Rmdir":                                      {calls: 17},
	"Rmdir of a link":                            {calls: 18},
	"Rmdir of a tree":                            {calls: 70},
	"RmdirContents":                              {calls: 68},
	"CreateSymlink":                              {calls: 18},
	"NewSMBGlobalMapping":                        {calls: 9},
	"NewSMBGlobalMapping with a link":            {calls: 29},
	"NewSMBGlobalMapping again":                  {calls: 13},
	"UpdateSMBGlobalMapping":                     {calls: 3},
	"GetSMBGlobalMapping":                        {calls: 9},
	"RemoveSMBGlobalMapping":                     {calls: 3},
	"AddTargetPortal":                            {calls: 2},
	"DiscoverTargetPortal":                       {calls: 5},
	"ListTargetPortals":                          {calls: 1},
	"RemoveTargetPortal":                         {calls: 2},
	"ConnectTarget":                              {calls: 8},
	"GetTargetDisks":                             {calls: 2},
	"DisconnectTarget":                           {calls: 46, perDisk: 4},
	"SetMutualChapSecret":                        {calls: 1},
	"GetService":                                 {calls: 10},
	"StartService again":                         {calls: 5},
	"StopService again":                          {calls: 5},
	"GetBIOSSerialNumber":                        {calls: 2},
}

// circumstances are what else a node has when calls are counted.
type circumstances struct {
	disks, mappings int
}

// count returns the cost of an operation, and how long it waits on the node's clock.
func (o operation) count(t *testing.T, with circumstances) (got cost, waited time.Duration) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		m := inBubble(t, func(c *nodespec.Config) {
			if o.config != nil {
				o.config(c)
			}
			for range with.disks {
				c.Disks = append(c.Disks, nodespec.Disk{Size: gib, Content: nodespec.ContentGPT, Partitions: []nodespec.Partition{{}}})
			}
		})
		k := &counter{}
		for i := range with.mappings {
			k.others = append(k.others, win32.Use{Remote: fmt.Sprintf(`\\%s\share%d`, server, i), User: "csi"})
		}
		m.api = counted{m.Node, k}
		c, err := m.start(t.Context(), lifeRequest, k.hook)
		if err != nil {
			t.Fatal(err)
		}
		if err := c.smb.(*smb.SMB).Survey(t.Context()); err != nil { // as the daemon does
			t.Fatal(err)
		}
		if o.setup != nil {
			if err := o.setup(c); err != nil {
				t.Fatalf("%s: %v", o.name, err)
			}
		}
		calls, reads, begun := k.calls.Load(), k.reads.Load(), time.Now()
		if err := o.do(c); err != nil {
			t.Fatalf("%s: %v", o.name, err)
		}
		got, waited = cost{calls: k.calls.Load() - calls, reads: k.reads.Load() - reads}, time.Since(begun)
	})
	return got, waited
}

// Each operation makes as many calls as its row says, and on a larger node at most its perDisk
// calls more for each disk with a volume.
func TestCalls(t *testing.T) {
	const others, mappings = 16, 5000
	unknown := map[string]bool{}
	for name := range costs {
		unknown[name] = true
	}
	for _, o := range operations() {
		want, ok := costs[o.name]
		if !ok {
			continue
		}
		delete(unknown, o.name)
		one, waits := o.count(t, circumstances{})
		many, manyWait := o.count(t, circumstances{disks: others})
		if one.calls != want.calls || one.reads != want.reads || many.reads != want.reads {
			t.Errorf("%s: %d calls and %d reads of a disk, and %d with %d other disks, want %d and %d", o.name, one.calls, one.reads, many.reads, others, want.calls, want.reads)
		}
		if most := want.calls + others*want.perDisk; many.calls > most {
			t.Errorf("%s: %d calls with %d other disks, want at most %d", o.name, many.calls, others, most)
		}
		if waits != manyWait && want.perDisk == 0 {
			t.Errorf("%s waits for %v with 1 disk and %v with %d others", o.name, waits, manyWait, others)
		}
		if o.about == shares {
			if got, _ := o.count(t, circumstances{mappings: mappings}); got.calls != want.calls {
				t.Errorf("%s: %d calls with %d other mappings, want %d", o.name, got.calls, mappings, want.calls)
			}
		}
	}
	for name := range unknown {
		t.Errorf("there is no operation %q", name)
	}
}

// Each method of the services is in the table, and its calls are counted.
func TestEveryMethodIsInTheTable(t *testing.T) {
	counted := map[string]bool{}
	for name := range costs {
		method, _, _ := strings.Cut(name, " ")
		counted[method] = true
	}
	for _, service := range []any{(*disk.Interface)(nil), (*volume.Service)(nil), (*filesystem.Interface)(nil), (*smb.Service)(nil), (*iscsi.Interface)(nil), (*system.Interface)(nil)} {
		for m := range reflect.TypeOf(service).Elem().Methods() {
			if !counted[m.Name] {
				t.Errorf("%v: no operation of the table is %s, or its calls are not counted", reflect.TypeOf(service).Elem(), m.Name)
			}
		}
	}
}
