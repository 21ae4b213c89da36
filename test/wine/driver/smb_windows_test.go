package driver

import (
	"errors"
	"slices"
	"testing"

	"github.com/kubernetes-csi/csi-proxy/v2/internal/win32"
	"github.com/kubernetes-csi/csi-proxy/v2/internal/win32/emulated/behavior"
	"github.com/kubernetes-csi/csi-proxy/v2/internal/win32/native/backend"
	"github.com/kubernetes-csi/csi-proxy/v2/pkg/simnode/nodespec"
)

// smbHost returns a host that reaches a server with shares.
func smbHost(t *testing.T) *host {
	t.Helper()
	config := systemOnly()
	config.World = behavior.In("", behavior.Windows{SMBErrors: behavior.SMBErrorsNumbered, SMBUsers: behavior.SMBUsersShown})
	config.SMBServers = []nodespec.SMBServer{{
		Name: "nas", Shares: []string{"one", "two", "three", "four", "five"},
		Accounts: []nodespec.SMBAccount{{User: `CORP\ann`, Password: "pässword"}},
	}}
	return newHost(t, config)
}

// Global mappings through the flat functions: arguments arrive in the fields
// where Windows' structures have them, and long lists are read to their end.
func TestGlobalMappings(t *testing.T) {
	h := smbHost(t)
	add := func(share, password string) error {
		return h.bare.UseAdd(win32.NewUse{Remote: `\\nas\` + share, User: "ann", Domain: "CORP", Password: win32.NewSecret(password), Flags: win32.REQUIRE_CONNECTION_PRIVACY})
	}
	if err := add("one", "wrong"); !win32.IsCode(err, win32.ERROR_INVALID_PASSWORD) {
		t.Errorf("a mapping with a wrong password: %v, want ERROR_INVALID_PASSWORD", err)
	}
	var want []win32.Use
	for _, share := range []string{"one", "two", "three", "four", "five"} {
		if err := add(share, "pässword"); err != nil {
			t.Errorf("map %s: %v", share, err)
		}
		want = append(want, win32.Use{Remote: `\\nas\` + share, User: "ann", Domain: "CORP", Status: win32.USE_OK, FlagsUnknown: true})
	}
	byRemote := func(a, b win32.Use) int { return slices.Compare([]byte(a.Remote), []byte(b.Remote)) }
	slices.SortFunc(want, byRemote)
	have, err := h.bare.UseEnum()
	slices.SortFunc(have, byRemote)
	if err != nil || !slices.Equal(have, want) {
		t.Errorf("mappings %+v, %v, want %+v", have, err, want)
	}
	given := h.server.Mappings()
	if len(given) != 6 || given[0].Password != "wrong" ||
		given[5] != (Mapping{`\\nas\five`, "ann", "CORP", "pässword", win32.REQUIRE_CONNECTION_PRIVACY | persistentGlobal}) {
		t.Errorf("netapi32.dll got %+v", given)
	}
	if err := h.bare.UseDel(`\\nas\two`); err != nil {
		t.Errorf("remove: %v", err)
	}
	if err := h.bare.UseDel(`\\nas\two`); !win32.IsCode(err, win32.ERROR_NOT_CONNECTED) {
		t.Errorf("remove again: %v, want ERROR_NOT_CONNECTED", err)
	}
	if have, err := h.bare.UseEnum(); err != nil || len(have) != 4 {
		t.Errorf("mappings %+v, %v, want four", have, err)
	}
}

// A mapping that is not global is removed again.
func TestMappingNotGlobal(t *testing.T) {
	h := smbHost(t)
	h.server.IgnoreGlobalFlag()
	own, err := openNative() // it will find that it has no global mappings
	if err != nil {
		t.Fatal(err)
	}
	err = own.API.UseAdd(win32.NewUse{Remote: `\\nas\one`, User: "ann", Domain: "CORP", Password: win32.NewSecret("pässword")})
	if !errors.Is(err, backend.ErrUnavailable) {
		t.Errorf("a mapping for one session: %v, want ErrUnavailable", err)
	}
	if given := h.server.Mappings(); len(given) != 1 {
		t.Errorf("netapi32.dll got %+v, want one mapping", given)
	}
	h.server.mu.Lock()
	defer h.server.mu.Unlock()
	if len(h.server.own) != 0 {
		t.Errorf("mappings left: %+v", h.server.own)
	}
}
