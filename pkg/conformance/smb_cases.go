package conformance

import (
	"fmt"
	"slices"
	"strings"

	"github.com/kubernetes-csi/csi-proxy/v2/pkg/hosterr"
	"github.com/kubernetes-csi/csi-proxy/v2/pkg/simnode/nodespec"
	"github.com/kubernetes-csi/csi-proxy/v2/pkg/smb"
	"github.com/kubernetes-csi/csi-proxy/v2/pkg/volume"
)

// The server that the cases use, and passwords that no error may contain.
const (
	nas     = "contract-nas"
	annsOne = "ann-pass-1"
	annsTwo = "ann-pass-2"
	bobsOne = "bob-pass-1"
)

func (e *env) mapShare(remote, local, user, password string) error {
	e.Helper()
	return e.newMapping(&smb.NewSMBGlobalMappingRequest{RemotePath: remote, LocalPath: local, Username: user, Password: password})
}

func (e *env) protectShare(remote, local, user, password string, privacy, integrity bool) error {
	e.Helper()
	return e.newMapping(&smb.NewSMBGlobalMappingRequest{
		RemotePath: remote, LocalPath: local, Username: user, Password: password, RequirePrivacy: privacy, RequireIntegrity: integrity,
	})
}

func (e *env) newMapping(in *smb.NewSMBGlobalMappingRequest) error {
	e.Helper()
	err := do(e, e.n.SMB.NewSMBGlobalMapping, in)
	e.hides(err, annsOne, annsTwo, bobsOne)
	return err
}

// updateShare returns whether the new credentials are in effect.
func (e *env) updateShare(remote, user, password string) (bool, error) {
	e.Helper()
	inEffect, err := get(e, e.n.SMB.UpdateSMBGlobalMapping, &smb.UpdateSMBGlobalMappingRequest{RemotePath: remote, Username: user, Password: password}, func(r *smb.UpdateSMBGlobalMappingResponse) bool { return r.InEffect })
	e.hides(err, annsOne, annsTwo, bobsOne)
	return inEffect, err
}

// wantUpdate checks that the server accepts new credentials, and whether they are in effect.
func (e *env) wantUpdate(remote, user, password string, inEffect bool) {
	e.Helper()
	if got, err := e.updateShare(remote, user, password); err != nil || got != inEffect {
		e.Errorf("UpdateSMBGlobalMapping: in effect %t, %v, want %t", got, err, inEffect)
	}
}

func (e *env) getShare(remote string, paths ...string) (smb.GetSMBGlobalMappingResponse, error) {
	return get(e, e.n.SMB.GetSMBGlobalMapping, &smb.GetSMBGlobalMappingRequest{RemotePath: remote, LocalPaths: paths}, func(r *smb.GetSMBGlobalMappingResponse) smb.GetSMBGlobalMappingResponse { return *r })
}

// wantShare checks the status of a mapping, how many links use it, and which of paths.
func (e *env) wantShare(remote string, status smb.MappingStatus, links uint32, own []string, paths ...string) {
	e.Helper()
	got, err := e.getShare(remote, paths...)
	slices.Sort(got.LocalPaths)
	if err != nil || got.Status != status || got.Links != links || got.LinksIncomplete || !slices.Equal(got.LocalPaths, own) {
		e.Errorf("GetSMBGlobalMapping of %s: %+v, %v, want status %d and %d links, of which %q", remote, got, err, status, links, own)
	}
}

func (e *env) unmapShare(remote string) error {
	return do(e, e.n.SMB.RemoveSMBGlobalMapping, &smb.RemoveSMBGlobalMappingRequest{RemotePath: remote})
}

// nas adds the server that the cases use.
func (e *env) nas() {
	e.Helper()
	e.server(SMBServer{Name: nas, Shares: []string{"data", "logs"}, Accounts: []SMBAccount{{User: "ann", Password: annsOne}, {User: "bob", Password: bobsOne}}})
}

func (e *env) server(s SMBServer) {
	e.Helper()
	if e.n.AddSMBServer == nil {
		e.lacks("add SMB servers")
	}
	e.need("add an SMB server", e.n.AddSMBServer(s))
}

func (e *env) password(user, password string) {
	e.Helper()
	if e.n.SetSMBPassword == nil {
		e.lacks("change passwords of SMB servers")
	}
	e.need("change a password of an SMB server", e.n.SetSMBPassword(nas, user, password))
}

func (e *env) down(down bool) {
	e.Helper()
	if e.n.SetSMBDown == nil {
		e.lacks("make SMB servers unreachable")
	}
	e.need("make an SMB server unreachable, or reachable again", e.n.SetSMBDown(nas, down))
}

// stage returns the path of a driver's link and makes the directory for it.
func (e *env) stage(name string) string {
	e.Helper()
	return e.dir(name) + `\globalmount`
}

// wantMappings checks the mappings, each given as `share user`, followed by a ! if
// it does not work. It checks nothing if the node cannot list mappings.
func (e *env) wantMappings(want ...string) {
	e.Helper()
	if e.n.SMBMappings == nil {
		return
	}
	list, err := e.n.SMBMappings()
	e.need("list SMB mappings", err)
	var got []string
	for _, m := range list {
		text := strings.TrimPrefix(strings.ToLower(m.Remote), `\\`+nas+`\`) + " " + m.User
		if m.Status != "ok" {
			text += "!"
		}
		got = append(got, text)
	}
	slices.Sort(got)
	if !slices.Equal(got, want) {
		e.Errorf("mappings %q, want %q", got, want)
	}
}

// wantRead checks that the content of the share can be reached through links.
func (e *env) wantRead(links ...string) {
	e.Helper()
	for _, l := range links {
		e.wantExists(true, l+`\inside`)
		e.wantExists(false, l+`\not there`)
	}
}

// afterRestart returns a case that stages two shares again after a restart of Windows.
// left are the mappings that the restart leaves, and half those after one share is staged.
func afterRestart(left, half []string) func(*env) {
	return func(e *env) {
		const data, logs = `\\` + nas + `\data`, `\\` + nas + `\logs`
		e.nas()
		if e.n.Restart == nil {
			e.lacks("restart Windows")
		}
		v1, v2 := e.stage("v1"), e.stage("v2")
		e.ok(e.mapShare(data, v1, "ann", annsOne))
		e.ok(e.mapShare(logs, v2, "ann", annsOne))
		e.need("restart Windows", e.n.Restart())
		e.wantMappings(left...)
		e.ok(e.mapShare(data, v1, "ann", annsOne))
		e.wantMappings(half...)
		e.wantRead(v1)
		e.ok(e.mapShare(logs, v2, "ann", annsOne))
		e.wantRead(v1, v2)
		e.wantMappings("data ann", "logs ann")
	}
}

func smbCases() []testCase {
	const data, logs = `\\` + nas + `\data`, `\\` + nas + `\logs`
	return []testCase{
		{name: "share is mapped, read through its link and removed", run: func(e *env) {
			e.nas()
			v := e.stage("v1")
			for range 3 { // as after lost responses
				e.ok(e.mapShare(data, v, "ann", annsOne))
				e.wantLink(v, true)
				e.wantRead(v)
				e.wantMappings("data ann")
			}
			e.ok(e.rmdir(v, false))
			for range 2 {
				e.ok(e.unmapShare(data))
				e.wantMappings()
			}
		}},
		{name: "what is at the link of a share needs no server, and its space is the share's", run: func(e *env) {
			e.nas()
			v := e.stage("v1")
			e.ok(e.mapShare(data, v, "ann", annsOne))
			e.wantKind(v, volume.PATH_KIND_LINK, "")
			for _, path := range []string{v, v + `\inside`, v + `\inside\inside`} {
				if got, err := e.spaceAt(path); err != nil || got.total == 0 || got.used < 0 || got.used > got.total {
					e.Errorf("space at %s: %+v, %v", path, got, err)
				}
			}
			e.down(true)
			e.wantKind(v, volume.PATH_KIND_LINK, "")
			if _, err := e.spaceAt(v); err == nil {
				e.Error("GetPathStats succeeded although the server is down")
			}
		}},
		{name: "share is mapped without a link", run: func(e *env) {
			e.nas()
			e.ok(e.mapShare(data, "", "ann", annsOne))
			e.ok(e.mapShare(data, "", "ann", annsOne))
			e.wantMappings("data ann")
			e.ok(e.unmapShare(data))
			e.wantMappings()
		}},
		{name: "all spellings of a share use one mapping", run: func(e *env) {
			e.nas()
			for i, remote := range []string{`\\` + nas + `\data\`, `\\` + nas + `\data\\`, "//" + nas + "/data", "//" + nas + "/data/", `\\` + strings.ToUpper(nas) + `/Data`} {
				v := e.stage(fmt.Sprint("v", i))
				e.ok(e.mapShare(remote, v, "ann", annsOne))
				e.wantRead(v)
				e.wantMappings("data ann")
				e.ok(e.rmdir(v, false))
			}
			e.ok(e.unmapShare("//" + nas + "/data/"))
			e.wantMappings()
		}},
		{name: "directory below a share uses the mapping of the share", run: func(e *env) {
			e.nas()
			v1, v2 := e.stage("v1"), e.stage("v2")
			e.ok(e.mapShare(data+`\inside`, v1, "ann", annsOne))
			e.wantMappings("data ann")
			e.ok(e.mapShare(data, v2, "ann", annsOne))
			e.wantRead(v1, v2)
			e.wantExists(true, v2+`\inside\inside`)
			e.wantExists(false, v1+`\inside\inside`)
			e.wantMappings("data ann")
		}},
		{name: "malformed remote paths are refused", run: func(e *env) {
			v := e.stage("v1")
			for _, call := range []func(string) error{func(remote string) error { return e.mapShare(remote, v, "ann", annsOne) }, e.unmapShare} {
				e.want("empty path", call(""), hosterr.ErrInvalid, "remote path is empty")
				for _, remote := range []string{
					`\\` + nas, `\\` + nas + `\`, nas + `\data`, `C:\Windows`, `\\?\C:\Windows`, `\\.\pipe\x`, data + `\..\logs`, `\\` + nas + `@SSL\data`, data + `\a:b`,
				} {
					e.want(remote, call(remote), hosterr.ErrInvalid, fmt.Sprintf("remote path (%s) is invalid", remote))
				}
			}
			e.wantExists(false, v)
			e.wantMappings()
		}},
		{name: "link that cannot be made leaves no mapping", run: func(e *env) {
			e.nas()
			taken := e.dir("taken")
			e.want("link over a directory", e.mapShare(data, taken, "ann", annsOne), hosterr.ErrAlreadyExists, "creating link")
			e.want("link in a missing directory", e.mapShare(data, e.path("none", "x"), "ann", annsOne), hosterr.ErrNotFound, "creating link")
			e.want("link at a relative path", e.mapShare(data, `x\y`, "ann", annsOne), hosterr.ErrInvalid)
			e.wantMappings()
			e.wantLink(taken, false)
		}},
		{name: "request that the server refuses leaves no mapping", run: func(e *env) {
			e.nas()
			v := e.stage("v1")
			for _, c := range []struct {
				what, remote, user, password string
				kind                         error
			}{
				{"another password", data, "ann", annsTwo, hosterr.ErrPermissionDenied},
				{"an unknown account", data, "unknown", annsOne, hosterr.ErrPermissionDenied},
				{"the node's own account", data, "", "", hosterr.ErrPermissionDenied},
				{"an unknown share", `\\` + nas + `\none`, "ann", annsOne, hosterr.ErrNotFound},
				{"an unknown server", `\\contract-nowhere\data`, "ann", annsOne, hosterr.ErrUnavailable},
			} {
				e.want(c.what, e.mapShare(c.remote, v, c.user, c.password), c.kind)
			}
			e.wantExists(false, v)
			e.wantMappings()
			e.ok(e.mapShare(data, v, "ann", annsOne))
			e.wantRead(v)
		}},
		{name: "other credentials are refused while a link uses the mapping", run: func(e *env) {
			e.nas()
			v1, v2 := e.stage("v1"), e.stage("v2")
			e.ok(e.mapShare(data, v1, "ann", annsOne))
			for _, remote := range []string{data, logs} {
				e.want("another user", e.mapShare(remote, v2, "bob", bobsOne), hosterr.ErrFailedPrecondition, nas, `"ann"`, `"bob"`)
			}
			e.want("another password", e.mapShare(data, v2, "ann", annsTwo), hosterr.ErrFailedPrecondition, nas, `"ann"`, "another password")
			e.wantExists(false, v2)
			e.wantRead(v1)
			e.wantMappings("data ann")
			// A mapping that no link uses is replaced.
			e.ok(e.rmdir(v1, false))
			e.ok(e.mapShare(logs, v2, "bob", bobsOne))
			e.wantRead(v2)
			e.wantMappings("logs bob")
		}},
		{name: "changed password is accepted at once and needed after a reconnect", run: func(e *env) {
			e.nas()
			v1, v2 := e.stage("v1"), e.stage("v2")
			e.ok(e.mapShare(data, v1, "ann", annsOne))
			e.password("ann", annsTwo)
			e.wantRead(v1)
			v3 := e.stage("v3")
			e.ok(e.mapShare(data, v3, "ann", annsTwo)) // the server accepts it
			e.want("the old password", e.mapShare(data, e.stage("v4"), "ann", annsOne), hosterr.ErrFailedPrecondition, "another password")
			e.wantRead(v1, v3)
			e.down(true)
			e.down(false)
			e.want("the old password", e.mapShare(data, v1, "ann", annsOne), hosterr.ErrPermissionDenied)
			for _, v := range []string{v1, v2} {
				e.ok(e.mapShare(data, v, "ann", annsTwo))
			}
			e.wantRead(v1, v2)
			e.wantMappings("data ann")
		}},
		{name: "use of a mapping is counted, and only links that the caller names are listed", run: func(e *env) {
			e.nas()
			v1, v2, v3 := e.stage("v1"), e.stage("v2"), e.stage("v3")
			e.wantShare(data, smb.MAPPING_STATUS_UNMAPPED, 0, nil, v1)
			e.ok(e.mapShare(data, "", "ann", annsOne))
			e.wantShare(data, smb.MAPPING_STATUS_OK, 0, nil, v1)
			e.ok(e.mapShare(data, v1, "ann", annsOne))
			e.ok(e.mapShare(data+`\inside`, v2, "ann", annsOne))
			e.ok(e.mapShare(logs, v3, "ann", annsOne))
			above := v1[:strings.LastIndexByte(v1, '\\')]
			e.wantShare(data, smb.MAPPING_STATUS_OK, 2, nil)
			e.wantShare(data+`\inside`, smb.MAPPING_STATUS_OK, 2, nil, above, v3, above+`\none`)
			e.wantShare("//"+nas+"/DATA", smb.MAPPING_STATUS_OK, 2, []string{v1, v1}, v1, v3, v1)
			e.wantShare(logs, smb.MAPPING_STATUS_OK, 1, []string{v3}, v1, v2, v3)
			e.down(true)
			e.wantShare(data, smb.MAPPING_STATUS_DISCONNECTED, 2, []string{v2}, v2)
			e.down(false)
			e.ok(e.rmdir(v1, false))
			e.wantShare(data, smb.MAPPING_STATUS_DISCONNECTED, 1, nil, v1) // until it is used
			e.ok(e.rmdir(v2, false))
			e.ok(e.unmapShare(data))
			e.wantShare(data, smb.MAPPING_STATUS_UNMAPPED, 0, nil, v1, v2)
			e.want("GetSMBGlobalMapping of a server", errOf(e.getShare(`\\`+nas)), hosterr.ErrInvalid, "remote path")
			e.want("GetSMBGlobalMapping with a relative path", errOf(e.getShare(data, `x\y`)), hosterr.ErrInvalid)
		}},
		{name: "new credentials wait for the end of a session that a link uses", run: func(e *env) {
			e.nas()
			v := e.stage("v1")
			e.want("update without a mapping", errOf(e.updateShare(data, "ann", annsOne)), hosterr.ErrNotFound, nas, "not mapped")
			e.ok(e.mapShare(data, v, "ann", annsOne))
			e.wantUpdate(data, "ann", annsOne, true)
			e.want("a wrong password", errOf(e.updateShare(data, "ann", annsTwo)), hosterr.ErrFailedPrecondition, "another password")
			another := errOf(e.updateShare(data, "bob", bobsOne))
			e.want("another user", another, hosterr.ErrFailedPrecondition, `"ann"`, `"bob"`)
			other := e.mapShare(logs, e.stage("v2"), "bob", bobsOne)
			e.want("a link for another user", other, hosterr.ErrFailedPrecondition, "in use by 1 link;")
			for _, err := range []error{another, other} {
				if err != nil && strings.Contains(err.Error(), v) {
					e.Errorf("the error has the path of a link: %v", err)
				}
			}
			e.password("ann", annsTwo)
			for range 2 {
				e.wantUpdate(data, "ann", annsTwo, false)
				e.wantRead(v)
				e.wantMappings("data ann")
			}
			// The session ends, and cannot begin again with the old password.
			e.down(true)
			e.want("update while the server is down", errOf(e.updateShare(data, "ann", annsTwo)), hosterr.ErrUnavailable)
			e.down(false)
			e.wantUpdate(data, "ann", annsTwo, true)
			e.wantRead(v)
			e.wantMappings("data ann")
		}},
		{name: "new credentials are in effect at once if no link uses the mapping", run: func(e *env) {
			e.nas()
			v := e.stage("v1")
			e.ok(e.mapShare(data, v, "ann", annsOne))
			e.password("ann", annsTwo)
			e.wantUpdate(data, "ann", annsTwo, false)
			e.ok(e.rmdir(v, false))
			e.wantUpdate(data, "ann", annsTwo, true)
			e.wantUpdate(data, "bob", bobsOne, true)
			e.wantMappings("data bob")
			e.down(true)
			e.down(false)
			e.ok(e.mapShare(data, v, "bob", bobsOne))
			e.wantRead(v)
		}},
		{name: "mapping requires the encryption and signing that are asked for", run: func(e *env) {
			e.nas()
			v1, v2 := e.stage("v1"), e.stage("v2")
			e.ok(e.protectShare(data, v1, "ann", annsOne, true, false))
			if got, err := e.getShare(data); err != nil || !got.RequirePrivacy || got.RequirementsUnknown {
				e.Errorf("GetSMBGlobalMapping: %+v, %v, want privacy", got, err)
			}
			e.ok(e.protectShare(data, v2, "ann", annsOne, false, true)) // encryption is more
			for _, in := range []smb.UpdateSMBGlobalMappingRequest{{RequirePrivacy: true}, {RequireIntegrity: true}} {
				in.RemotePath, in.Username, in.Password = data, "ann", annsOne
				out, err := e.n.SMB.UpdateSMBGlobalMapping(e.ctx, &in)
				if err = checkResponse(e, out, err); err != nil || !out.InEffect {
					e.Errorf("UpdateSMBGlobalMapping of what the mapping requires: %+v, %v, want it in effect", out, err)
				}
			}
			e.ok(e.protectShare(logs, "", "ann", annsOne, false, true))
			e.wantRead(v1, v2)
			e.wantMappings("data ann", "logs ann")
		}},
		{name: "restart breaks mappings and the next request repairs them", setup: Setup{World: nodespec.WorldStrict},
			run: afterRestart([]string{"data ann!", "logs ann!"}, []string{"data ann", "logs ann!"})},
		{name: "restart leaves mappings and the next request uses them", setup: Setup{World: nodespec.WorldKind},
			run: afterRestart([]string{"data ann", "logs ann"}, []string{"data ann", "logs ann"})},
		{name: "mapping is removed with its last link", run: func(e *env) {
			e.nas()
			v1, v2 := e.stage("v1"), e.stage("v2")
			e.ok(e.mapShare(data, v1, "ann", annsOne))
			e.ok(e.mapShare(data+`\inside`, v2, "ann", annsOne))
			e.ok(e.rmdir(v1, false))
			e.ok(e.unmapShare(data))
			e.wantMappings("data ann")
			e.wantRead(v2)
			e.ok(e.rmdir(v2, false))
			e.ok(e.unmapShare(data + `\inside`))
			e.wantMappings()
		}},
		{name: "removal before the link is gone is done later", run: func(e *env) {
			e.nas()
			v := e.stage("v1")
			e.ok(e.mapShare(data, v, "ann", annsOne))
			e.ok(e.unmapShare(data))
			e.wantRead(v)
			e.ok(e.rmdir(v, false)) // the order of csi-driver-smb
			e.wantMappings()
			e.ok(e.mapShare(data, v, "ann", annsOne))
			e.ok(e.unmapShare(data))
			e.ok(e.mapShare(data, v, "ann", annsOne)) // wanted again
			e.ok(e.rmdir(v, false))
			e.wantMappings("data ann")
			e.ok(e.mapShare(data, v, "ann", annsOne))
			e.ok(e.unmapShare(data))
			e.ok(e.empty(v[:strings.LastIndexByte(v, '\\')]))
			e.wantMappings()
		}},
		{name: "removing an unmapped share succeeds", run: func(e *env) {
			e.ok(e.unmapShare(`\\contract-nowhere\data`))
			e.ok(e.unmapShare(`\\contract-nowhere\data\below`))
		}},
		{name: "mapping works again after a server outage", run: func(e *env) {
			e.nas()
			v1, v2 := e.stage("v1"), e.stage("v2")
			e.down(true)
			e.want("without a mapping", e.mapShare(data, v1, "ann", annsOne), hosterr.ErrUnavailable)
			e.wantExists(false, v1)
			e.wantMappings()
			e.down(false)
			e.ok(e.mapShare(data, v1, "ann", annsOne))
			e.down(true)
			e.want("with a mapping", e.mapShare(data, v2, "ann", annsOne), hosterr.ErrUnavailable)
			e.wantMappings("data ann!")
			e.down(false)
			e.wantRead(v1)
			e.ok(e.mapShare(data, v2, "ann", annsOne))
			e.wantRead(v1, v2)
			e.wantMappings("data ann")
		}},
		{name: "share is unmapped while its server is down", run: func(e *env) {
			e.nas()
			v := e.stage("v1")
			e.ok(e.mapShare(data, v, "ann", annsOne))
			e.down(true)
			e.ok(e.rmdir(v, false))
			e.ok(e.unmapShare(data))
			e.wantMappings()
		}},
		{name: "server without encryption gets no password", run: func(e *env) {
			e.server(SMBServer{Name: nas, Shares: []string{"data"}, Accounts: []SMBAccount{{User: "ann", Password: annsOne}}, NoEncryption: true})
			v := e.stage("v1")
			e.want("NewSMBGlobalMapping", e.mapShare(data, v, "ann", annsOne), hosterr.ErrPermissionDenied)
			e.wantExists(false, v)
			e.wantMappings()
		}},
		{name: "local and administrative shares are refused", run: func(e *env) {
			e.confined()
			v := e.stage("v1")
			for _, remote := range []string{
				`\\localhost\data`, `\\127.0.0.1\data`, "//LOCALHOST/data", `\\--1.ipv6-literal.net\data`,
				`\\` + nas + `\C$`, `\\` + nas + `\admin$`, `\\` + nas + `\IPC$`, `\\` + nas + `\c$\Windows`,
			} {
				e.want(remote, e.mapShare(remote, v, "ann", annsOne), hosterr.ErrPermissionDenied)
				e.want("removal of "+remote, e.unmapShare(remote), hosterr.ErrPermissionDenied)
			}
			e.wantExists(false, v)
			e.wantMappings()
		}},
		{name: "link outside the working directories is refused", run: func(e *env) {
			e.confined()
			e.nas()
			for _, path := range []string{`C:\Windows\link`, e.n.Dir + `\..\..\..\..\..\link`} {
				if err := e.mapShare(data, path, "ann", annsOne); err == nil {
					e.Errorf("a link was made at %s", path)
				}
			}
			e.wantMappings()
		}},
	}
}
