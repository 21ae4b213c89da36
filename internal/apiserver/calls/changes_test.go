package calls

import (
	"testing"

	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"

	"github.com/kubernetes-csi/csi-proxy/client/apiversion"
)

// A read-only daemon would refuse a method of the API that is not in the table, even if it
// only reads.
func TestChangesHasEveryMethod(t *testing.T) {
	unused := map[string]bool{}
	for key := range changes {
		unused[key] = true
	}
	methods, changing := 0, 0
	protoregistry.GlobalFiles.RangeFiles(func(f protoreflect.FileDescriptor) bool {
		if !apiversion.IsValidVersion(string(f.Package())) {
			return true
		}
		for i := range f.Services().Len() {
			all := f.Services().Get(i).Methods()
			for j := range all.Len() {
				key := keyOf(string(all.Get(j).Name()))
				if key == "" {
					t.Errorf("%s: the table does not say whether it changes the node", all.Get(j).FullName())
				}
				delete(unused, key)
				methods++
				if Changes(string(all.Get(j).Name())) {
					changing++
				}
			}
		}
		return true
	})
	for key := range unused {
		t.Errorf("no version has a method %s", key)
	}
	t.Logf("%d of %d methods of all versions change the node", changing, methods)
	if methods < 100 {
		t.Errorf("found %d methods of all versions, so the search is broken", methods)
	}
}

func TestChanges(t *testing.T) {
	for method, want := range map[string]bool{
		"GetDiskState": false, "ListDiskIDs": false, "IsSymlink": false, "PathExists": false, "DiskStats": false,
		"SetDiskState": true, "PartitionDisk": true, "RmdirContents": true, "Mkdir": true, "Rescan": true,
		"BrandNew": true, "": true, "Getaway": true, "PathErase": true,
	} {
		if got := Changes(method); got != want {
			t.Errorf("Changes(%q) = %v, want %v", method, got, want)
		}
	}
}
