package wmi

import (
	"fmt"
	"strings"

	"github.com/kubernetes-csi/csi-proxy/v2/internal/win32"
	"github.com/kubernetes-csi/csi-proxy/v2/internal/winpath"
)

// SMBNamespace is the namespace of MSFT_SmbGlobalMapping.
const SMBNamespace = `root\Microsoft\Windows\SMB`

const mappingClass = "MSFT_SmbGlobalMapping"

// mappingQuery finds the mappings of a share by its name. WQL ignores case.
// https://learn.microsoft.com/windows/win32/wmisdk/wql-operators
func mappingQuery(remote string) query {
	return query{class: mappingClass, where: []condition{{"RemotePath", remote}}}
}

// useOf converts a mapping to the type of package win32. The numbers of Status
// are those of USE_OK and up. Windows reports no user here.
func useOf(r row) (win32.Use, error) {
	remote, err := r.text("RemotePath")
	if err != nil {
		return win32.Use{}, err
	}
	use := win32.Use{Remote: remote}
	if !r.null("LocalPath") {
		if use.Local, err = r.text("LocalPath"); err != nil {
			return win32.Use{}, err
		}
	}
	if use.Status, err = r.uint32("Status"); err != nil {
		return use, err
	}
	for property, flag := range requirements {
		switch required, ok := r.values[property].(bool); {
		case !ok:
			use.FlagsUnknown = true
		case required:
			use.Flags |= flag
		}
	}
	return use, nil
}

// requirements are the properties of a mapping that say which flags it was made with.
var requirements = map[string]uint32{"RequireIntegrity": win32.REQUIRE_CONNECTION_INTEGRITY, "RequirePrivacy": win32.REQUIRE_CONNECTION_PRIVACY}

// isMappingOf reports whether a mapping is one of remote without a drive letter,
// like those that [Client.UseAdd] creates.
func isMappingOf(r row, remote string) (bool, error) {
	have, err := r.text("RemotePath")
	if err != nil || !winpath.SameShare(have, remote) {
		return false, err
	}
	if r.null("LocalPath") {
		return true, nil
	}
	local, err := r.text("LocalPath")
	return local == "", err
}

// createParameters returns the arguments of MSFT_SmbGlobalMapping.Create. It sets
// privacy explicitly, to true or false.
func createParameters(u win32.NewUse) []parameter {
	p := []parameter{{"RemotePath", u.Remote}, {"RequirePrivacy", u.Flags&win32.REQUIRE_CONNECTION_PRIVACY != 0}}
	if u.Flags&win32.REQUIRE_CONNECTION_INTEGRITY != 0 {
		p = append(p, parameter{"RequireIntegrity", true})
	}
	if u.User != "" {
		p = append(p, parameter{"Credential", credential(u)})
	}
	return p
}

// credential returns user and password as the one string that Create expects: the
// user, with a backslash before each backslash and colon, then a colon, and the
// unchanged password.
func credential(u win32.NewUse) win32.Secret {
	user := u.User
	if u.Domain != "" {
		user = u.Domain + `\` + user
	}
	return win32.NewSecret(strings.NewReplacer(`\`, `\\`, `:`, `\:`).Replace(user) + ":" + u.Password.Reveal())
}

// mappingResult returns the error of a method of MSFT_SmbGlobalMapping. Its return
// values are undocumented; those of SMB's other functions are Windows errors.
func mappingResult(out row) error {
	code, err := out.uint32("ReturnValue")
	if err != nil || code == 0 {
		return err
	}
	if code>>16 == 0x8007 { // HRESULT_FROM_WIN32
		code &= 0xFFFF
	}
	return fmt.Errorf("%s returned %d: %w", out.of, code, win32.Errno(code))
}
