package wmi

import (
	"maps"
	"reflect"
	"slices"
	"testing"
	"unsafe"

	"github.com/go-ole/go-ole"
	"golang.org/x/sys/windows"

	"github.com/kubernetes-csi/csi-proxy/v2/internal/win32"
)

// service stands in for the WMI service: it has the classes of disks, volumes and shares, which
// Wine lacks.
type service struct {
	found   map[string][]map[string]any // instances by query
	returns int                         // ReturnValue of all methods

	queries, methods []string // that were asked for
	put              map[string]any
	kept             []*object // COM does not keep Go's objects
	blankets         [][2]uint32
}

func text(address uintptr) string { return windows.UTF16PtrToString((*uint16)(pointer(address))) }

// give makes an object, and gives it to the caller of a method.
func (s *service) give(to uintptr, methods map[method]comMethod) uintptr {
	o := newObject(methods)
	s.kept = append(s.kept, o)
	*(**object)(pointer(to)) = o
	return 0
}

// client is a client of the service.
func (s *service) client(t *testing.T) *Client {
	s.put = map[string]any{}
	arguments := map[method]comMethod{objectPut: func(args [7]uintptr) uintptr {
		v := (*ole.VARIANT)(pointer(args[2]))
		s.put[text(args[0])] = v.Value()
		if v.VT == ole.VT_BOOL && v.Val != 0 && uint16(v.Val) != 0xFFFF {
			t.Errorf("%s is %#x, which is neither VARIANT_TRUE nor VARIANT_FALSE", text(args[0]), v.Val)
		}
		return 0
	}}
	kind := map[method]comMethod{objectSpawnInstance: func(args [7]uintptr) uintptr { return s.give(args[1], arguments) }}
	class := map[method]comMethod{objectGetMethod: func(args [7]uintptr) uintptr { return s.give(args[2], kind) }}
	result := map[method]comMethod{objectGet: func(args [7]uintptr) uintptr {
		return properties(map[string]any{"ReturnValue": s.returns})(args)
	}}
	// Security is set by SetBlanket of IClientSecurity, which is another object, as of a proxy.
	security := map[method]comMethod{4: func(args [7]uintptr) uintptr {
		s.blankets = append(s.blankets, [2]uint32{uint32(args[4]), uint32(args[5])})
		return 0
	}}
	services := newObject(map[method]comMethod{
		servicesGetObject: func(args [7]uintptr) uintptr { return s.give(args[3], class) },
		servicesExecQuery: func(args [7]uintptr) uintptr {
			s.queries = append(s.queries, text(args[1]))
			left := slices.Clone(s.found[text(args[1])])
			return s.give(args[4], map[method]comMethod{
				queryInterface: func(args [7]uintptr) uintptr { return s.give(args[1], security) },
				enumNext: func(args [7]uintptr) uintptr {
					n := min(len(left), int(args[1]))
					for i := range n {
						s.give(args[2]+uintptr(i)*unsafe.Sizeof(uintptr(0)), map[method]comMethod{objectGet: properties(left[i])})
					}
					left = left[n:]
					*(*uint32)(pointer(args[3])) = uint32(n)
					return 0
				},
			})
		},
		servicesExecMethod: func(args [7]uintptr) uintptr {
			s.methods = append(s.methods, text(args[0])+"."+text(args[1]))
			return s.give(args[5], result)
		},
	})
	c := client(t, "")
	c.connect = func(session *session) error { session.services = services; return nil }
	return c
}

// Each call asks for what it should, passes the arguments, and returns what the method returns.
func TestCallsOfTheService(t *testing.T) {
	const (
		vol      = `\\?\Volume{00000000-1111-2222-3333-444444444444}\`
		byName   = `SELECT * FROM MSFT_Volume WHERE UniqueId = "\\\\?\\Volume{00000000-1111-2222-3333-444444444444}\\"`
		volumes  = "SELECT * FROM MSFT_Volume"
		byRemote = `SELECT * FROM MSFT_SmbGlobalMapping WHERE RemotePath = "\\\\nas\\data"`
		mappings = "SELECT * FROM MSFT_SmbGlobalMapping"
		disks    = "SELECT Number, OfflineReason FROM MSFT_Disk"
	)
	volume := func(id string) []map[string]any {
		return []map[string]any{{"UniqueId": id, "__RELPATH": "MSFT_Volume=1"}}
	}
	mapping := func(remote string, more map[string]any) map[string]any {
		all := map[string]any{"RemotePath": remote, "LocalPath": "", "Status": 0, "__RELPATH": "of " + remote}
		maps.Copy(all, more)
		return all
	}
	format := func(c *Client) error { return c.Format(vol, win32.FormatOptions{ClusterSize: 4096}) }
	add := func(c *Client) error {
		return c.UseAdd(win32.NewUse{Remote: `\\nas\data`, User: "ann", Domain: "CORP", Password: win32.NewSecret("pw"), Flags: win32.REQUIRE_CONNECTION_PRIVACY})
	}
	remove := func(c *Client) error { return c.UseDel(`\\nas\data`) }
	update := func(c *Client) error { return c.UpdateCache() }
	var uses []win32.Use
	var reasons map[uint32]uint16
	formatted := map[string]any{"FileSystem": "NTFS", "FileSystemLabel": "", "Full": false, "Force": true, "AllocationUnitSize": int32(4096)}
	added := map[string]any{"RemotePath": `\\nas\data`, "RequirePrivacy": true, "Credential": `CORP\\ann:pw`}
	for _, c := range []struct {
		name    string
		service service
		call    func(*Client) error
		want    win32.Errno // 0: success
		queries []string
		methods []string
		put     map[string]any
	}{
		{"a volume is formatted", service{found: map[string][]map[string]any{byName: volume(vol)}}, format, 0, []string{byName}, []string{"MSFT_Volume=1.Format"}, formatted},
		{"a format fails", service{found: map[string][]map[string]any{byName: volume(vol)}, returns: 43006}, format, win32.ERROR_WRITE_PROTECT, []string{byName}, []string{"MSFT_Volume=1.Format"}, formatted},
		{"another volume is found", service{found: map[string][]map[string]any{byName: volume(vol + "x")}}, format, win32.ERROR_GEN_FAILURE, []string{byName}, nil, nil},
		{"two are found", service{found: map[string][]map[string]any{byName: append(volume(vol), volume(vol)...)}}, format, win32.ERROR_GEN_FAILURE, []string{byName}, nil, nil},
		{"no volume is found", service{found: map[string][]map[string]any{volumes: volume("x")}}, format, win32.ERROR_NOT_READY, []string{byName, volumes}, nil, nil},
		{"there are no volumes", service{}, format, win32.ERROR_SERVICE_DISABLED, []string{byName, volumes}, nil, nil},
		{"the cache is updated", service{}, update, 0, nil, []string{"MSFT_StorageSetting.UpdateHostStorageCache"}, nil},
		{"an update fails", service{returns: 40001}, update, win32.ERROR_ACCESS_DENIED, nil, []string{"MSFT_StorageSetting.UpdateHostStorageCache"}, nil},
		{"disks have reasons", service{found: map[string][]map[string]any{disks: {{"Number": 3, "OfflineReason": 1}}}},
			func(c *Client) (err error) { reasons, err = c.OfflineReasons(); return err }, 0, []string{disks}, nil, nil},
		{"a share is mapped", service{}, add, 0, nil, []string{"MSFT_SmbGlobalMapping.Create"}, added},
		{"a server refuses", service{returns: 1326}, add, win32.ERROR_LOGON_FAILURE, nil, []string{"MSFT_SmbGlobalMapping.Create"}, added},
		{"mappings are listed", service{found: map[string][]map[string]any{mappings: {mapping(`\\nas\data`, nil), mapping(`\\nas\two`, map[string]any{"LocalPath": "G:", "Status": 2})}}},
			func(c *Client) (err error) { uses, err = c.UseEnum(); return err }, 0, []string{mappings}, nil, nil},
		{"a mapping is removed", service{found: map[string][]map[string]any{byRemote: {mapping(`\\nas\data`, nil)}}}, remove, 0, []string{byRemote}, []string{`of \\nas\data.Remove`}, map[string]any{"Force": true}},
		{"a removal fails", service{found: map[string][]map[string]any{byRemote: {mapping(`\\nas\data`, nil)}}, returns: 5}, remove, win32.ERROR_ACCESS_DENIED, []string{byRemote}, []string{`of \\nas\data.Remove`}, map[string]any{"Force": true}},
		{"Windows spells the share in another way", service{found: map[string][]map[string]any{mappings: {mapping(`\\nas\two`, nil), mapping(`\\NAS\Data`, nil)}}}, remove, 0, []string{byRemote, mappings}, []string{`of \\NAS\Data.Remove`}, map[string]any{"Force": true}},
		{"the mapping has a drive letter", service{found: map[string][]map[string]any{mappings: {mapping(`\\nas\data`, map[string]any{"LocalPath": "G:"})}}}, remove, win32.ERROR_NOT_CONNECTED, []string{byRemote, mappings}, nil, nil},
	} {
		s := &c.service
		err := c.call(s.client(t))
		if code, _ := win32.Code(err); code != c.want || (err == nil) != (c.want == 0) {
			t.Errorf("%s: %v, want %v", c.name, err, c.want)
		}
		if !slices.Equal(s.queries, c.queries) || !slices.Equal(s.methods, c.methods) || !reflect.DeepEqual(s.put, c.put) && len(s.put)+len(c.put) > 0 {
			t.Errorf("%s: asked %q, called %q with %v, want %q, %q with %v", c.name, s.queries, s.methods, s.put, c.queries, c.methods, c.put)
		}
		for _, b := range s.blankets { // encrypted, with the rights of this process
			if b != [2]uint32{6, 3} {
				t.Errorf("%s: security %v, want {6 3}", c.name, b)
			}
		}
		if len(s.queries) > 0 && len(s.blankets) != len(s.queries) {
			t.Errorf("%s: security of %d results of %d queries is set", c.name, len(s.blankets), len(s.queries))
		}
	}
	if !maps.Equal(reasons, map[uint32]uint16{3: 1}) {
		t.Errorf("reasons %v, want that of disk 3", reasons)
	}
	want := []win32.Use{{Remote: `\\nas\data`, FlagsUnknown: true}, {Remote: `\\nas\two`, Local: "G:", Status: win32.USE_DISCONN, FlagsUnknown: true}}
	if !slices.Equal(uses, want) {
		t.Errorf("mappings %+v, want %+v", uses, want)
	}
}
