package hunt_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/kubernetes-csi/csi-proxy/v2/internal/win32"
	"github.com/kubernetes-csi/csi-proxy/v2/pkg/filesystem"
	"github.com/kubernetes-csi/csi-proxy/v2/pkg/hosterr"
	"github.com/kubernetes-csi/csi-proxy/v2/pkg/simnode/nodespec"
	"github.com/kubernetes-csi/csi-proxy/v2/pkg/smb"
)

const (
	shareServer = "files"
	shareName   = "data"
	shareRoot   = `\\` + shareServer + `\` + shareName
)

// shareUsers are the accounts of the server. A is also asked for with a wrong password.
var shareUsers = []nodespec.SMBAccount{{User: "A", Password: "secret of A"}, {User: "B", Password: "secret of B"}}

// shareObject is a share with its mapping and two links to it.
type shareObject struct{ w *world }

func (o *shareObject) name() string { return "share" }

// shareDir is the directory of a link, shareLink the link.
func shareDir(i string) string  { return base + `\share` + i }
func shareLink(i string) string { return shareDir(i) + `\globalmount` }

func (o *shareObject) requests() []string {
	return []string{
		"MapA0", "MapA0", "MapA1", "MapB0", "MapB1", "MapWrong0", "MapWrong1", "Unmap", "Unmap",
		"Unlink0", "Unlink1", "IsLink0", "IsLink1",
	}
}

func (o *shareObject) events() []string {
	return []string{"down", "up", "drop", "lose", "cut0", "cut1"}
}

func (o *shareObject) useful() []string {
	info := o.w.show()
	switch {
	case info.SMBServers[0].Down:
		return []string{"up"}
	case len(info.SMBMappings) == 0:
		return []string{"MapA0", "MapA1", "MapB1"}
	case len(info.SMBMappings[0].UsedBy) == 0:
		return []string{"Unmap", "MapA0", "MapB0", "MapB1"}
	}
	return []string{"Unmap", "Unlink0", "Unlink1", "MapA1", "MapB0", "MapWrong0", "MapWrong1", "drop", "down"}
}

func smbCall[In, Out any](do func(smb.Interface, context.Context, *In) (*Out, error), in *In) call {
	return checked(func(p *process) func(context.Context, *In) (*Out, error) {
		return func(ctx context.Context, in *In) (*Out, error) { return do(p.SMB, ctx, in) }
	}, in, nil)
}

func (o *shareObject) prepare(op string) call {
	name, at := split(op)
	switch name {
	case "Unmap":
		return smbCall(smb.Interface.RemoveSMBGlobalMapping, &smb.RemoveSMBGlobalMappingRequest{RemotePath: shareRoot})
	case "Unlink":
		return fileCall(filesystem.Interface.Rmdir, &filesystem.RmdirRequest{Path: shareLink(at)}, nil)
	case "IsLink":
		return fileCall(filesystem.Interface.IsSymlink, &filesystem.IsSymlinkRequest{Path: shareLink(at)}, func(r *filesystem.IsSymlinkResponse) string { return fmt.Sprint(r.IsSymlink) })
	}
	in := &smb.NewSMBGlobalMappingRequest{RemotePath: shareRoot, LocalPath: shareLink(at), Username: mapUser(name), Password: "a wrong password"}
	for _, a := range shareUsers {
		if name == "Map"+a.User {
			in.Password = a.Password
		}
	}
	return smbCall(smb.Interface.NewSMBGlobalMapping, in)
}

// mapUser returns the user of a request for a mapping.
func mapUser(name string) string {
	if user := strings.TrimPrefix(name, "Map"); user != "Wrong" {
		return user
	}
	return "A"
}

func (o *shareObject) happen(what string) ([]operation, bool) {
	info := o.w.show()
	down, mapped := info.SMBServers[0].Down, len(info.SMBMappings) > 0
	name, at := split(what)
	var ok bool
	var err error
	switch name {
	case "down", "up":
		ok = down != (name == "down")
		if ok {
			err = o.w.m.SetSMBServerDown(shareServer, name == "down")
		}
	case "drop": // the session ends, as after a fault of the network
		if ok = mapped; ok {
			err = o.w.m.SetSMBMappingStatus(shareRoot, "disconnected")
		}
	case "lose": // an administrator removes the mapping
		if ok = mapped; ok {
			err = o.w.m.UseDel(shareRoot, win32.USE_LOTS_OF_FORCE)
		}
	case "cut": // an administrator, or the kubelet, removes the link
		if ok = o.w.exists(shareLink(at)); ok {
			err = o.w.m.RemoveFile(shareLink(at))
		}
	}
	return []operation{{op: what}}, ok && err == nil
}

func (o *shareObject) restarted(reboot bool) []operation {
	if reboot {
		return []operation{{op: "reboot"}}
	}
	return []operation{{op: "kill"}}
}

func (o *shareObject) observe() []operation {
	info := o.w.show()
	user := "none"
	if len(info.SMBMappings) > 0 {
		user = info.SMBMappings[0].User
	}
	var links [2]string
	for i := range links {
		at := fmt.Sprint(i)
		files, err := o.w.m.Files(shareLink(at))
		switch {
		case err != nil || len(files) == 0:
			links[i] = "none"
		case files[0].Link != nil:
			links[i] = "link"
		default:
			links[i] = "directory"
		}
	}
	return []operation{{op: "observe", value: fmt.Sprintf("user=%s links=%s,%s rest=%t", user, links[0], links[1], o.w.rest)}}
}

// shareState is the state of a share on the node.
type shareState struct {
	down bool
	// user is the user of the mapping, or "none".
	user string
	// works means that the mapping works for sure. known means that this process knows whose
	// it is.
	works, known bool
	links        [2]string // "none", "link", or "directory"
	unwanted     bool      // the mapping is to be removed with its last link
}

func (s shareState) used(except int) bool {
	return s.links[0] == "link" && except != 0 || s.links[1] == "link" && except != 1
}

func (o *shareObject) parts() []string              { return []string{""} }
func (o *shareObject) about(string, operation) bool { return true }
func (o *shareObject) first(string) any {
	return shareState{user: "none", known: true, links: [2]string{"none", "none"}}
}

// swept adds the states after the removal of a mapping that no link uses any more.
func swept(states []shareState) []shareState {
	for _, s := range slices.Clone(states) {
		if s.unwanted && !s.used(-1) {
			s.user, s.works, s.unwanted = "none", false, false
			states = add(states, s)
		}
	}
	return states
}

func add(states []shareState, s shareState) []shareState {
	if slices.Contains(states, s) {
		return states
	}
	return append(states, s)
}

func (o *shareObject) step(_ string, state any, op operation) (all []any) {
	for _, s := range swept([]shareState{state.(shareState)}) {
		for _, after := range swept(s.after(op)) {
			if !slices.Contains(all, any(after)) {
				all = append(all, after)
			}
		}
	}
	return all
}

// after returns the states after an operation, or none if it is not possible.
func (s shareState) after(op operation) []shareState {
	name, at := split(op.op)
	i := 0
	if at != "" {
		i = int(at[0] - '0')
	}
	mapped := s.user != "none"
	next := s
	switch name {
	case "down":
		next.down, next.works = true, false
		return []shareState{next}
	case "up":
		next.down = false
		return []shareState{next}
	case "drop":
		next.works = false
		return []shareState{next}
	case "lose":
		next.user, next.works = "none", false
		return []shareState{next}
	case "cut":
		next.links[i] = "none"
		return []shareState{next}
	case "kill", "reboot":
		next.known, next.unwanted = !mapped, false
		next.works = s.works && name == "kill"
		if name == "kill" {
			return []shareState{next}
		}
		lost := next // Windows keeps mappings, or not, and never their credentials
		lost.user, lost.known = "none", true
		return []shareState{next, lost}
	case "observe":
		var rest bool
		var user, links string
		if _, err := fmt.Sscanf(op.value, "user=%s links=%s rest=%t", &user, &links, &rest); err != nil {
			return nil
		}
		if user != s.user || links != s.links[0]+","+s.links[1] || rest && s.unwanted && !s.used(-1) && !s.down {
			return nil
		}
		return []shareState{s}
	case "IsLink":
		// A link whose target cannot be reached is none, as published.
		if op.value == "true" && s.links[i] != "link" || op.value == "false" && s.links[i] == "link" && s.works {
			return nil
		}
		return []shareState{s}
	case "Unlink":
		next.links[i] = "none"
		switch {
		case !op.succeeded() && (op.unknown || op.disturbed):
			return []shareState{s, next}
		case op.succeeded() && s.links[i] != "none":
			return []shareState{next}
		case errors.Is(op.err, hosterr.ErrNotFound) && s.links[i] == "none":
			return []shareState{s}
		}
		return nil
	case "Unmap":
		if s.used(-1) {
			next.unwanted = true
		} else {
			next.user, next.works, next.unwanted = "none", false, false
		}
		switch {
		case !op.succeeded() && (op.unknown || op.disturbed):
			return []shareState{s, next}
		case !op.succeeded():
			return nil
		case op.disturbed && mapped: // a link that could not be read counts as used
			waits := s
			waits.unwanted = true
			return []shareState{next, waits}
		}
		return []shareState{next}
	}
	return s.afterMap(op, name, i)
}

// afterMap returns the states after a request for the mapping and a link.
func (s shareState) afterMap(op operation, name string, i int) []shareState {
	user, mapped := mapUser(name), s.user != "none"
	next := s
	next.user, next.works, next.known, next.unwanted = user, true, true, false
	next.links[i] = "link"
	if op.succeeded() && op.disturbed { // what it has seen or made may be gone again
		calm := op
		calm.disturbed = false
		states := s.afterMap(calm, name, i)
		for _, n := range states {
			n.links[i] = s.links[i]
			states = add(states, n)
			n.user, n.works = "none", false
			states = add(states, n)
			n.links[i] = "link"
			states = add(states, n)
		}
		if s.works { // it may have looked broken
			broken := s
			broken.works = false
			for _, n := range broken.afterMap(calm, name, i) {
				states = add(states, n)
			}
		}
		if s.down { // it went down after the request had used it
			up := s
			up.down = false
			for _, n := range up.afterMap(calm, name, i) {
				n.down, n.works = true, false
				states = add(states, n)
			}
		}
		return states
	}
	if op.succeeded() {
		switch {
		case s.down || s.links[i] == "directory":
			return nil
		case name == "MapWrong": // an existing link keeps the mapping of an earlier process
			if s.known || !mapped || s.links[i] != "link" {
				return nil
			}
			return []shareState{s}
		case mapped && !s.known: // the request gets its own mapping, or that of an earlier process
			kept, guess := next, next
			kept.user, kept.known, guess.known = s.user, false, false
			return []shareState{next, guess, kept}
		case !mapped || s.user == user || !s.works:
			return []shareState{next}
		case s.used(i): // another user's mapping in use
			return nil
		}
		return []shareState{next}
	}
	states := []shareState{s}
	if !op.unknown && !op.disturbed {
		switch {
		case name == "MapWrong", s.down, s.links[i] == "directory":
		case mapped && (!s.works || !s.known || s.user != user && s.used(i)):
		default:
			return nil
		}
		if s.works && s.used(-1) { // what works and is used stays
			return states
		}
	}
	// It may have stopped anywhere.
	gone := s
	gone.user, gone.works, gone.known = "none", false, true
	states = append(states, gone)
	for _, link := range []string{s.links[i], "directory", "link"} {
		if name != "MapWrong" && (s.links[i] == "none" || s.links[i] == link) {
			n := next
			n.links[i] = link
			states = add(states, n)
			n.unwanted = s.unwanted
			states = add(states, n)
			n.user, n.works, n.known = s.user, s.works, s.known
			if mapped {
				states = add(states, n)
			}
		}
	}
	return states
}
