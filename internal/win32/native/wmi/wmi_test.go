package wmi

import (
	"errors"
	"fmt"
	"maps"
	"reflect"
	"strings"
	"testing"

	"github.com/kubernetes-csi/csi-proxy/v2/internal/win32"
	"github.com/kubernetes-csi/csi-proxy/v2/internal/win32/mingwtest"
	"github.com/kubernetes-csi/csi-proxy/v2/internal/win32/native/backend"
)

func TestWQL(t *testing.T) {
	for _, c := range []struct {
		q    query
		want string // "" for an error
	}{
		{query{class: "Win32_BIOS"}, `SELECT * FROM Win32_BIOS`},
		{mappingQuery(`\\nas\data`), `SELECT * FROM MSFT_SmbGlobalMapping WHERE RemotePath = "\\\\nas\\data"`},
		{volumeQuery(`\\?\Volume{00000000-1111-2222-3333-444444444444}\`), `SELECT * FROM MSFT_Volume WHERE UniqueId = "\\\\?\\Volume{00000000-1111-2222-3333-444444444444}\\"`},
		{query{class: "C", where: []condition{{"A", `O'Neil`}, {"B", `say "no"\`}}}, `SELECT * FROM C WHERE A = "O'Neil" AND B = "say \"no\"\\"`},
		{query{class: "C", where: []condition{{"A", ""}}}, `SELECT * FROM C WHERE A = ""`},
		{query{class: "C", where: []condition{{"A", "größer 日本"}}}, `SELECT * FROM C WHERE A = "größer 日本"`},
		{offlineReasonsQuery(), `SELECT Number, OfflineReason FROM MSFT_Disk`},
		{query{class: "C", only: []string{"A", "B"}, where: []condition{{"C", "0"}}}, `SELECT A, B FROM C WHERE C = "0"`},
		{query{class: "C", only: []string{"A FROM B"}}, ""},
		{query{}, ""},
		{query{class: "C WHERE 1=1"}, ""},
		{query{class: "C", where: []condition{{"A = B OR C", "x"}}}, ""},
		{query{class: "C", where: []condition{{"", "x"}}}, ""},
		{query{class: "C", where: []condition{{"A", "a\nb"}}}, ""},
		{query{class: "C", where: []condition{{"A", "a\x00b"}}}, ""},
		{query{class: "C", where: []condition{{"A", "\xff"}}}, ""}, // not text
	} {
		got, err := c.q.wql()
		if got != c.want || (err == nil) != (c.want != "") || err != nil && !win32.IsCode(err, win32.ERROR_INVALID_NAME) {
			t.Errorf("%+v: %s, %v, want %s", c.q, got, err, c.want)
		}
	}
}

// A literal stays within its quotes, and reads back as the same text.
func FuzzLiteral(f *testing.F) {
	f.Add(`a "b" \ 'c'`)
	f.Add(`\\server\share\`)
	f.Add("\\\" OR \"1\" = \"1")
	f.Fuzz(func(t *testing.T, s string) {
		l, err := literal(s)
		if err != nil {
			return
		}
		var back strings.Builder
		inside := l[1 : len(l)-1]
		for i := 0; i < len(inside); i++ {
			if inside[i] == '"' {
				t.Fatalf("literal(%q) = %s ends at byte %d", s, l, i)
			}
			if inside[i] == '\\' {
				if i++; i == len(inside) {
					t.Fatalf("literal(%q) = %s does not end", s, l)
				}
			}
			back.WriteByte(inside[i])
		}
		if back.String() != s || l[0] != '"' || l[len(l)-1] != '"' {
			t.Errorf("literal(%q) = %s, which reads as %q", s, l, back.String())
		}
	})
}

func TestRow(t *testing.T) {
	r := row{of: "MSFT_X", values: map[string]any{
		"null": nil, "text": "t", "empty": "", "digits": "4294967295", "more": "4294967296", "minus": int64(-2147483646),
		"below": int64(-1) << 40, "unsigned": uint64(40001), "of a VARIANT": int32(-2147483646), "small": uint8(7), "above": uint64(1) << 32, "bool": true,
	}}
	for name, want := range map[string]any{
		"text": "t", "empty": "", "null": nil, "unknown": nil, "bool": nil, "minus": nil,
	} {
		got, err := r.text(name)
		if (err == nil) != (want != nil) || err == nil && got != want {
			t.Errorf("text(%s) = %q, %v, want %v", name, got, err, want)
		}
		wrong(t, name, err)
	}
	for name, want := range map[string]any{
		"digits": uint32(4294967295), "minus": uint32(0x80000002), "unsigned": uint32(40001), "of a VARIANT": uint32(0x80000002), "small": uint32(7),
		"null": nil, "unknown": nil, "more": nil, "below": nil, "above": nil, "empty": nil, "text": nil, "bool": nil,
	} {
		got, err := r.uint32(name)
		if (err == nil) != (want != nil) || err == nil && got != want {
			t.Errorf("uint32(%s) = %d, %v, want %v", name, got, err, want)
		}
		wrong(t, name, err)
	}
	if !r.null("null") || r.null("empty") {
		t.Error("null does not distinguish null from empty")
	}
}

// wrong checks that an error about a property has its name, its class, and an
// error number.
func wrong(t *testing.T, property string, err error) {
	t.Helper()
	if err == nil {
		return
	}
	if !strings.Contains(err.Error(), "WMI property "+property+" of MSFT_X ") || !win32.IsCode(err, win32.ERROR_GEN_FAILURE) {
		t.Errorf("%s: %v lacks the name or an error number", property, err)
	}
	if property == "null" && !strings.Contains(err.Error(), "is null") {
		t.Errorf("%v does not say that it is null", err)
	}
}

// The HRESULTs that have a name here have the numbers of mingw-w64's headers and
// the expected meaning.
func TestHRESULTs(t *testing.T) {
	for hr, want := range map[uint32]struct {
		errno   win32.Errno
		missing bool
	}{
		0x80041001: {win32.ERROR_GEN_FAILURE, false},
		0x80041002: {win32.ERROR_NOT_FOUND, false},
		0x80041003: {win32.ERROR_ACCESS_DENIED, false},
		0x8004100E: {win32.ERROR_NOT_SUPPORTED, true},
		0x80041010: {win32.ERROR_NOT_SUPPORTED, true},
		0x80040154: {win32.ERROR_NOT_SUPPORTED, true},
		0x80070035: {win32.ERROR_BAD_NETPATH, false},
		0x8007052E: {win32.ERROR_LOGON_FAILURE, false},
		0x800706BA: {win32.RPC_S_SERVER_UNAVAILABLE, false},
		0x80041045: {win32.ERROR_BUSY, false},
		0xDEADBEEF: {win32.ERROR_GEN_FAILURE, false},
	} {
		err := error(&Error{Op: "test it", HRESULT: hr})
		code, ok := win32.Code(err)
		if !ok || code != want.errno || errors.Is(err, backend.ErrUnavailable) != want.missing {
			t.Errorf("%v: %v, missing: %t; want %v, %t", err, code, errors.Is(err, backend.ErrUnavailable), want.errno, want.missing)
		}
		if !strings.Contains(err.Error(), "test it") || !strings.Contains(err.Error(), fmt.Sprintf("0x%08X", hr)) {
			t.Errorf("%q lacks the operation or the HRESULT", err)
		}
	}
	notFound := &Error{Op: "get X", HRESULT: 0x80041002}
	if err := missingClass(notFound); !errors.Is(err, backend.ErrUnavailable) || !win32.IsCode(err, win32.ERROR_NOT_SUPPORTED) {
		t.Errorf("a class that is not found: %v, want ErrUnavailable", err)
	}
	if err := missingClass(&Error{HRESULT: 0x80041003}); errors.Is(err, backend.ErrUnavailable) {
		t.Errorf("a class that may not be read counts as missing: %v", err)
	}

	// An error of an object's method does not switch to the other backend, which
	// would format again what may be half formatted.
	for _, hr := range []uint32{0x8004100E, 0x80041010, 0x80041011, 0x8004102E, 0x80041055, 0x80040154} {
		call := error(&Error{Op: "MSFT_Volume.Format", HRESULT: hr})
		if err := begunError(call); !errors.Is(call, backend.ErrUnavailable) || errors.Is(err, backend.ErrUnavailable) || !win32.IsCode(err, win32.ERROR_NOT_SUPPORTED) || err.Error() != call.Error() {
			t.Errorf("%v of an object's method: %v, want an error other than ErrUnavailable", call, err)
		}
	}
	if other := errors.New("another"); begunError(other) != other {
		t.Errorf("begunError(%v) = %v", other, begunError(other))
	}

	var asserts []mingwtest.Assert
	for hr := uint32(0x80041000); hr < 0x80041080; hr++ {
		asserts = append(asserts, named(hr)...)
	}
	for _, hr := range []uint32{0x80040154, 0x80010108, 0x80004005} {
		asserts = append(asserts, named(hr)...)
	}
	if len(asserts) < 20 {
		t.Fatalf("%d HRESULTs have names, want 20", len(asserts))
	}
	for _, bad := range mingwtest.Check(t, "#define COBJMACROS\n#include <windows.h>\n#include <wbemcli.h>\n", asserts) {
		t.Errorf("%s has another value in mingw-w64's headers", bad)
	}
}

func named(hr uint32) []mingwtest.Assert {
	name, _, _ := meaning(hr)
	if name == "unknown error" {
		return nil
	}
	return []mingwtest.Assert{{Name: name, Expr: fmt.Sprintf("(unsigned)%s == %#xu", name, hr)}}
}

// The indexes of methods, from the tables of mingw-w64's headers.
func TestInterfaces(t *testing.T) {
	var asserts []mingwtest.Assert
	for table, methods := range map[string]map[string]method{
		"IWbemLocatorVtbl":         {"ConnectServer": locatorConnectServer},
		"IWbemServicesVtbl":        {"GetObject": servicesGetObject, "ExecQuery": servicesExecQuery, "ExecMethod": servicesExecMethod},
		"IEnumWbemClassObjectVtbl": {"Next": enumNext},
		"IWbemClassObjectVtbl":     {"Get": objectGet, "Put": objectPut, "SpawnInstance": objectSpawnInstance, "GetMethod": objectGetMethod},
		"IWbemCallResultVtbl":      {"GetResultObject": resultObject},
		"IErrorInfoVtbl":           {"QueryInterface": queryInterface, "GetDescription": errorDescription},
	} {
		for name, place := range methods {
			asserts = append(asserts, mingwtest.Offset(table, name, 8*int(place), 8)...)
		}
	}
	for name, value := range map[string]int{
		"WBEM_FLAG_CONNECT_USE_MAX_WAIT": 0x80, "WBEM_FLAG_FORWARD_ONLY": 0x20, "WBEM_FLAG_RETURN_IMMEDIATELY": 0x10,
		"WBEM_S_TIMEDOUT": 0x40004, "RPC_C_AUTHN_LEVEL_PKT_PRIVACY": 6, "RPC_C_IMP_LEVEL_IMPERSONATE": 3,
	} {
		asserts = append(asserts, mingwtest.Assert{Name: name, Expr: fmt.Sprintf("%s == %d", name, value)})
	}
	const prelude = "#define CINTERFACE\n#define COBJMACROS\n#include <windows.h>\n#undef GetObject\n#include <wbemcli.h>\n"
	for _, bad := range mingwtest.Check(t, prelude, asserts) {
		t.Errorf("false in mingw-w64's headers: %s", bad)
	}
}

func TestCheckVolume(t *testing.T) {
	const vol = `\\?\Volume{00000000-1111-2222-3333-444444444444}\`
	id := func(v any) row { return row{of: volumeClass, values: map[string]any{"UniqueId": v}} }
	for _, c := range []struct {
		name string
		rows []row
		want win32.Errno // 0: the right volume
	}{
		{"the volume", []row{id(vol)}, 0},
		{"in upper case", []row{id(strings.ToUpper(vol))}, 0},
		{"another one", []row{id(strings.Replace(vol, "4444", "5555", 1))}, win32.ERROR_GEN_FAILURE},
		{"two", []row{id(vol), id(vol)}, win32.ERROR_GEN_FAILURE},
		{"one without a name", []row{id(nil)}, win32.ERROR_GEN_FAILURE},
	} {
		err := checkVolume(c.rows, vol)
		if code, _ := win32.Code(err); code != c.want || (err == nil) != (c.want == 0) {
			t.Errorf("%s: %v, want %v", c.name, err, c.want)
		}
	}
}

func TestOfflineReasons(t *testing.T) {
	disk := func(number, reason any) row {
		return row{of: diskClass, values: map[string]any{diskNumber: number, diskOfflineReason: reason}}
	}
	for _, c := range []struct {
		name string
		rows []row
		want map[uint32]uint16
		err  error
	}{
		{"none", nil, map[uint32]uint16{}, nil},
		{"by policy, and a number that Windows may have later", []row{disk(int64(1), int64(1)), disk(int64(7), int64(65535))},
			map[uint32]uint16{1: win32.VDSDiskOfflineReasonPolicy, 7: 65535}, nil},
		{"null, of a disk that is online", []row{disk(int64(0), nil)}, map[uint32]uint16{0: win32.VDSDiskOfflineReasonNone}, nil},
		{"no number", []row{disk(nil, int64(1)), disk(int64(2), int64(4))}, map[uint32]uint16{2: win32.VDSDiskOfflineReasonCollision}, nil},
		{"three disks with one number", []row{disk(int64(1), int64(1)), disk(int64(1), int64(1)), disk(int64(1), nil)}, map[uint32]uint16{}, nil},
		{"too large", []row{disk(int64(1), int64(65536))}, nil, win32.ERROR_GEN_FAILURE},
		{"not a number", []row{disk(int64(1), "Policy")}, nil, win32.ERROR_GEN_FAILURE},
		{"a disk whose number is a text", []row{disk("one", int64(1))}, nil, win32.ERROR_GEN_FAILURE},
	} {
		if got, err := offlineReasonsOf(c.rows); !errors.Is(err, c.err) || !maps.Equal(got, c.want) || errors.Is(err, backend.ErrUnavailable) {
			t.Errorf("%s: %v, %v, want %v, %v", c.name, got, err, c.want, c.err)
		}
	}
}

// A new volume is not listed yet; a list without any volume has another cause.
func TestUnknownVolume(t *testing.T) {
	for others, want := range map[bool]win32.Errno{false: win32.ERROR_SERVICE_DISABLED, true: win32.ERROR_NOT_READY} {
		if err := unknownVolume(`\\?\Volume{1}\`, others); !win32.IsCode(err, want) || errors.Is(err, backend.ErrUnavailable) || strings.Contains(err.Error(), "smphost") == others {
			t.Errorf("with other volumes %t: %v, want %s", others, err, want.Name())
		}
	}
}

func TestFormatParameters(t *testing.T) {
	for _, c := range []struct {
		o    win32.FormatOptions
		want []parameter
	}{
		{win32.FormatOptions{}, []parameter{{"FileSystem", "NTFS"}, {"FileSystemLabel", ""}, {"Full", false}, {"Force", true}}},
		{win32.FormatOptions{ClusterSize: 65536}, []parameter{{"FileSystem", "NTFS"}, {"FileSystemLabel", ""}, {"Full", false}, {"Force", true}, {"AllocationUnitSize", uint32(65536)}}},
	} {
		if got := formatParameters(c.o); !reflect.DeepEqual(got, c.want) {
			t.Errorf("formatParameters(%+v) = %v, want %v", c.o, got, c.want)
		}
	}
}

func TestReturnValues(t *testing.T) {
	out := func(v any) row { return row{of: "MSFT_X.Y", values: map[string]any{"ReturnValue": v}} }
	for _, c := range []struct {
		read func(row) error
		v    any
		want win32.Errno // 0: success
	}{
		{storageResult, int64(0), 0},
		{storageResult, nil, win32.ERROR_GEN_FAILURE},
		{storageResult, "", win32.ERROR_GEN_FAILURE},
		{storageResult, int64(5), win32.ERROR_INVALID_PARAMETER},
		{storageResult, int64(40001), win32.ERROR_ACCESS_DENIED},
		{storageResult, int64(40004), win32.ERROR_IO_DEVICE},
		{storageResult, int64(42010), win32.ERROR_ACCESS_DENIED},
		{storageResult, int64(43006), win32.ERROR_WRITE_PROTECT},
		{storageResult, int64(4096), win32.ERROR_GEN_FAILURE}, // a job was started, although none was requested
		{storageResult, int64(-1), win32.ERROR_GEN_FAILURE},
		{mappingResult, int64(0), 0},
		{mappingResult, nil, win32.ERROR_GEN_FAILURE},
		{mappingResult, int64(1219), win32.ERROR_SESSION_CREDENTIAL_CONFLICT},
		{mappingResult, int64(-2147024843), win32.ERROR_BAD_NETPATH}, // 0x80070035
	} {
		err := c.read(out(c.v))
		if code, _ := win32.Code(err); code != c.want || (err == nil) != (c.want == 0) || err != nil && !strings.Contains(err.Error(), "MSFT_X.Y") {
			t.Errorf("returned %v: %v, want %v", c.v, err, c.want)
		}
		if errors.Is(err, backend.ErrUnavailable) {
			t.Errorf("returned %v: counts as a missing backend", c.v)
		}
	}
}

func TestMappings(t *testing.T) {
	r := func(remote, local, status any) row {
		return row{of: mappingClass, values: map[string]any{"RemotePath": remote, "LocalPath": local, "Status": status}}
	}
	for _, c := range []struct {
		privacy, integrity any
		flags              uint32
		unknown            bool
	}{
		{true, false, win32.REQUIRE_CONNECTION_PRIVACY, false},
		{true, true, win32.REQUIRE_CONNECTION_PRIVACY | win32.REQUIRE_CONNECTION_INTEGRITY, false},
		{false, false, 0, false},
		{nil, false, 0, true},
		{nil, nil, 0, true},
	} {
		row := r(`\\nas\data`, nil, int64(2))
		row.values["RequirePrivacy"], row.values["RequireIntegrity"] = c.privacy, c.integrity
		want := win32.Use{Remote: `\\nas\data`, Status: win32.USE_DISCONN, Flags: c.flags, FlagsUnknown: c.unknown}
		if u, err := useOf(row); err != nil || u != want {
			t.Errorf("useOf = %+v, %v, want %+v", u, err, want)
		}
	}
	if u, err := useOf(r(`\\nas\data`, "G:", int64(0))); err != nil || u != (win32.Use{Remote: `\\nas\data`, Local: "G:", FlagsUnknown: true}) {
		t.Errorf("useOf = %+v, %v", u, err)
	}
	for _, bad := range []row{r(nil, nil, int64(0)), r(`\\nas\data`, nil, nil)} { // a null status is not OK, which is 0
		if u, err := useOf(bad); err == nil {
			t.Errorf("useOf(%v) = %+v, want an error", bad.values, u)
		}
	}
	for _, c := range []struct {
		r    row
		want bool
	}{
		{r(`\\NAS\Data`, nil, int64(0)), true},
		{r(`\\nas\data`, "", int64(0)), true},
		{r(`\\nas\data`, "G:", int64(0)), false},
		{r(`\\nas\data2`, nil, int64(0)), false},
	} {
		if got, err := isMappingOf(c.r, `\\nas\data`); err != nil || got != c.want {
			t.Errorf("isMappingOf(%v) = %t, %v, want %t", c.r.values, got, err, c.want)
		}
	}
	if _, err := isMappingOf(r(nil, nil, int64(0)), `\\nas\data`); err == nil {
		t.Error("a mapping without a share is not an error")
	}
}

func TestCreateParameters(t *testing.T) {
	const remote = `\\nas\data`
	names := func(u win32.NewUse) (s string, credential string) {
		for _, p := range createParameters(u) {
			if secret, ok := p.value.(win32.Secret); ok {
				s, credential = s+" "+p.name, secret.Reveal()
				continue
			}
			s += fmt.Sprintf(" %s=%v", p.name, p.value)
		}
		return s[1:], credential
	}
	for _, c := range []struct {
		u          win32.NewUse
		want       string
		credential string
	}{
		{win32.NewUse{Remote: remote}, `RemotePath=\\nas\data RequirePrivacy=false`, ""},
		{win32.NewUse{Remote: remote, Password: win32.NewSecret("unused")}, `RemotePath=\\nas\data RequirePrivacy=false`, ""},
		{win32.NewUse{Remote: remote, Flags: win32.REQUIRE_CONNECTION_PRIVACY | win32.REQUIRE_CONNECTION_INTEGRITY}, `RemotePath=\\nas\data RequirePrivacy=true RequireIntegrity=true`, ""},
		{win32.NewUse{Remote: remote, User: "ann", Domain: "CORP", Password: win32.NewSecret(`p:a\ss`)}, `RemotePath=\\nas\data RequirePrivacy=false Credential`, `CORP\\ann:p:a\ss`},
		{win32.NewUse{Remote: remote, User: "a:b@corp", Password: win32.NewSecret("")}, `RemotePath=\\nas\data RequirePrivacy=false Credential`, `a\:b@corp:`},
	} {
		got, credential := names(c.u)
		if got != c.want || credential != c.credential {
			t.Errorf("createParameters(%+v) = %s, %s, want %s, %s", c.u, got, credential, c.want, c.credential)
		}
	}
	if s := fmt.Sprintf("%v %+v %#v", createParameters(win32.NewUse{User: "u", Password: win32.NewSecret("for-tests")}), createParameters(win32.NewUse{User: "u", Password: win32.NewSecret("for-tests")}), createParameters(win32.NewUse{User: "u", Password: win32.NewSecret("for-tests")})); strings.Contains(s, "for-tests") {
		t.Errorf("the password is printed: %s", s)
	}
}

// The user ends at the first colon without a backslash before it. The rest is the
// password, whatever characters they contain.
func FuzzCredential(f *testing.F) {
	f.Add("CORP", "ann", "secret")
	f.Add("", `a:\b\`, `:\`)
	f.Fuzz(func(t *testing.T, domain, user, password string) {
		text := credential(win32.NewUse{Domain: domain, User: user, Password: win32.NewSecret(password)}).Reveal()
		var name strings.Builder
		rest := ""
		for i := 0; i < len(text); i++ {
			if text[i] == ':' {
				rest = text[i+1:]
				break
			}
			if text[i] == '\\' {
				i++
			}
			name.WriteByte(text[i])
		}
		want := user
		if domain != "" {
			want = domain + `\` + user
		}
		if name.String() != want || rest != password {
			t.Errorf("%q, %q, %q became %q, which reads as %q, %q", domain, user, password, text, name.String(), rest)
		}
	})
}
