package hunt_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/kubernetes-csi/csi-proxy/v2/pkg/filesystem"
	"github.com/kubernetes-csi/csi-proxy/v2/pkg/hosterr"
	"github.com/kubernetes-csi/csi-proxy/v2/pkg/simnode/nodespec"
	"github.com/kubernetes-csi/csi-proxy/v2/pkg/smb"
)

// shareNames are the shares of each server.
var shareNames = [2]string{"data", "more"}

// shareUsers are the accounts of each server. A is also asked for with a wrong password.
var shareUsers = []nodespec.SMBAccount{{User: "A", Password: "secret of A"}, {User: "B", Password: "secret of B"}}

// shareObject is an SMB server with two shares, which have mappings. Links 0 and 1 lead to the
// first share, and link 2 to the second one.
type shareObject struct {
	whole
	w      *world
	server string
}

func (o *shareObject) name() string { return o.server }

// shareDir is the directory of a link to a share of a server.
func shareDir(server, i string) string { return base + `\` + server + i }

// link returns the path of a link, root the share that it leads to.
func (o *shareObject) link(i string) string { return shareDir(o.server, i) + `\globalmount` }
func (o *shareObject) root(i string) string {
	k, _ := whichLink(i)
	return `\\` + o.server + `\` + shareNames[k]
}

// whichLink returns the share of a link, and the index of the link there.
func whichLink(i string) (share, link int) {
	switch i {
	case "1":
		return 0, 1
	case "2":
		return 1, 0
	}
	return 0, 0
}

// find returns whether the server is down, and the mapping of the share of a link or nil.
func (o *shareObject) find(info nodespec.State, i string) (down bool, mapping *nodespec.SMBMappingInfo) {
	for _, s := range info.SMBServers {
		down = down || s.Down && s.Name == o.server
	}
	for n, m := range info.SMBMappings {
		if m.Remote == o.root(i) {
			mapping = &info.SMBMappings[n]
		}
	}
	return down, mapping
}

func (o *shareObject) requests() []string {
	return []string{
		"MapA0", "MapA0", "MapA1", "MapB0", "MapB1", "MapWrong0", "MapWrong1", "Unmap", "Unmap",
		"Unlink0", "Unlink1", "IsLink0", "IsLink1",
		"MapA2", "MapB2", "MapWrong2", "Unmap2", "Unlink2",
	}
}

func (o *shareObject) events() []string {
	return []string{"down", "up", "drop", "lose", "behind", "cut0", "cut1", "drop2", "lose2", "behind2", "cut2"}
}

func (o *shareObject) learn() {}

func (o *shareObject) useful() []string {
	info := o.w.show()
	down, mapping := o.find(info, "0")
	_, second := o.find(info, "2")
	switch {
	case down:
		return []string{"up"}
	case mapping == nil:
		return []string{"MapA0", "MapA1", "MapB1", "MapB2"}
	case len(mapping.UsedBy) == 0:
		return []string{"Unmap", "MapA0", "MapB0", "MapB1", "MapB2"}
	case second == nil:
		return []string{"MapA2", "MapB2", "Unmap", "Unlink0", "MapB0"}
	}
	return []string{"Unmap2", "Unlink2", "MapB2", "Unmap", "Unlink0", "Unlink1", "MapA1", "MapB0", "MapWrong0", "MapWrong1", "drop", "behind", "down"}
}

func smbCall[In, Out any](do func(smb.Interface, context.Context, *In) (*Out, error), in *In) call {
	return checked(func(p *process) smb.Interface { return p.SMB }, do, in, nil)
}

func (o *shareObject) prepare(op string) call {
	name, at := split(op)
	switch name {
	case "Unmap":
		return smbCall(smb.Interface.RemoveSMBGlobalMapping, &smb.RemoveSMBGlobalMappingRequest{RemotePath: o.root(at)})
	case "Unlink":
		return fileCall(filesystem.Interface.Rmdir, &filesystem.RmdirRequest{Path: o.link(at)}, nil)
	case "IsLink":
		return fileCall(filesystem.Interface.IsSymlink, &filesystem.IsSymlinkRequest{Path: o.link(at)}, func(r *filesystem.IsSymlinkResponse) string { return fmt.Sprint(r.IsSymlink) })
	}
	in := &smb.NewSMBGlobalMappingRequest{RemotePath: o.root(at), LocalPath: o.link(at), Username: mapUser(name), Password: "a wrong password"}
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
	name, at := split(what)
	down, mapping := o.find(o.w.show(), at)
	mapped := mapping != nil
	var ok bool
	var err error
	switch name {
	case "down", "up":
		ok = down != (name == "down")
		if ok {
			err = o.w.m.SetSMBServerDown(o.server, name == "down")
		}
	case "drop": // the session ends, as after a fault of the network
		if ok = mapped; ok {
			err = o.w.m.SetSMBMappingStatus(o.root(at), "disconnected")
		}
	case "behind": // Windows reports another status than the mapping has
		if ok = mapped; ok {
			err = o.w.m.ShowSMBMappingStatus(o.root(at), "disconnected", 4)
		}
	case "lose": // an administrator removes the mapping
		if ok = mapped; ok {
			err = o.w.m.UseDel(o.root(at))
		}
	case "cut": // an administrator, or the kubelet, removes the link
		if ok = o.w.exists(o.link(at)); ok {
			err = o.w.m.RemoveFile(o.link(at))
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
	users, links := [2]string{"none", "none"}, [2][2]string{{}, {1: "none"}}
	for _, at := range []string{"0", "1", "2"} {
		k, i := whichLink(at)
		if _, mapping := o.find(info, at); mapping != nil {
			users[k] = mapping.User
		}
		files, err := o.w.m.Files(o.link(at))
		switch {
		case err != nil || len(files) == 0:
			links[k][i] = "none"
		case files[0].Link != nil:
			links[k][i] = "link"
		default:
			links[k][i] = "directory"
		}
	}
	var texts []string
	for k := range users {
		texts = append(texts, fmt.Sprintf("user=%s links=%s,%s rest=%t", users[k], links[k][0], links[k][1], o.w.rest))
	}
	return []operation{{op: "observe", value: strings.Join(texts, "; ")}}
}

// serverState is the state of the two shares of a server.
type serverState [2]shareState

// shareState is the state of a share on the node.
type shareState struct {
	down bool
	// user is the user of the mapping, or "none".
	user string
	// works means that the mapping works for sure, and behind that Windows may say that it does
	// not. known means that this process knows whose it is.
	works, behind, known bool
	links                [2]string // "none", "link", or "directory"
	unwanted             bool      // the mapping is to be removed with its last link
}

func (s shareState) used(except int) bool {
	return s.links[0] == "link" && except != 0 || s.links[1] == "link" && except != 1
}

func (o *shareObject) parts() []string              { return []string{""} }
func (o *shareObject) about(string, operation) bool { return true }
func (o *shareObject) first(string) any {
	s := shareState{user: "none", known: true, links: [2]string{"none", "none"}}
	return serverState{s, s}
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
	both := state.(serverState)
	keep := func(a, b shareState) {
		for _, a := range swept([]shareState{a}) {
			for _, b := range swept([]shareState{b}) {
				if after := (serverState{a, b}); !slices.Contains(all, any(after)) {
					all = append(all, after)
				}
			}
		}
	}
	name, at := split(op.op)
	k, _ := whichLink(at)
	for _, a := range swept([]shareState{both[0]}) {
		for _, b := range swept([]shareState{both[1]}) {
			switch name {
			case "observe":
				first, second, _ := strings.Cut(op.value, "; ")
				ofFirst, ofSecond := op, op
				ofFirst.value, ofSecond.value = first, second
				if len(a.after(ofFirst, false)) > 0 && len(b.after(ofSecond, false)) > 0 {
					keep(a, b)
				}
			case "down", "up", "kill", "reboot": // for both shares
				for _, a := range a.after(op, false) {
					for _, b := range b.after(op, false) {
						keep(a, b)
					}
				}
			default:
				own, other := a, b
				if k == 1 {
					own, other = b, a
				}
				for _, after := range own.beside(other, op, name) {
					if k == 1 {
						after[0], after[1] = after[1], after[0]
					}
					keep(after[0], after[1])
				}
			}
		}
	}
	return all
}

// beside returns the states of a share and of the other one of its server after an operation
// on the first. Windows allows one user at a time for each server. So a mapping for another
// user needs that no link uses the other share, whose mapping then goes.
func (s shareState) beside(other shareState, op operation, name string) (all []serverState) {
	if !strings.HasPrefix(name, "Map") {
		for _, after := range s.after(op, false) {
			all = append(all, serverState{after, other})
		}
		return all
	}
	user := mapUser(name)
	differs := other.user != "none" && other.user != user
	gone := other
	gone.user, gone.works, gone.known, gone.unwanted = "none", false, true, false
	for _, after := range s.after(op, differs && (other.used(-1) || !other.known)) {
		switch made := after.user == user && s.user != user; {
		case !differs, !made && op.succeeded() && !op.disturbed:
			all = append(all, serverState{after, other})
		case made:
			if !other.used(-1) {
				all = append(all, serverState{after, gone})
			}
		default: // it stopped before or after it had removed the other mapping
			all = append(all, serverState{after, other})
			if !other.used(-1) && (op.unknown || op.disturbed) {
				all = append(all, serverState{after, gone})
			}
		}
	}
	return all
}

// after returns the states after an operation, or none if it is not possible. blocked means that
// another mapping may not make room for one of the user.
func (s shareState) after(op operation, blocked bool) []shareState {
	name, at := split(op.op)
	_, i := whichLink(at)
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
	case "behind":
		next.behind = true
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
		if op.value == "true" && s.links[i] != "link" || op.value == "false" && s.links[i] == "link" && s.works && !op.met {
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
	return s.afterMap(op, name, i, blocked)
}

// afterMap returns the states after a request for the mapping and a link.
func (s shareState) afterMap(op operation, name string, i int, blocked bool) []shareState {
	user, mapped := mapUser(name), s.user != "none"
	next := s
	next.user, next.works, next.known, next.unwanted = user, true, true, false
	next.links[i] = "link"
	if name == "MapWrong" && !op.succeeded() {
		return []shareState{s} // whatever Windows says about a mapping, it stays
	}
	if s.behind { // Windows may say that it does not work, so another user may get it
		dead, seen := s, s
		dead.works, dead.behind, seen.behind = false, false, false
		states := dead.afterMap(op, name, i, blocked)
		for _, n := range seen.afterMap(op, name, i, blocked) {
			states = add(states, n)
		}
		for _, n := range slices.Clone(states) {
			n.behind = true
			states = add(states, n)
		}
		return states
	}
	if op.succeeded() && op.disturbed { // what it has seen or made may be gone again
		calm := op
		calm.disturbed = false
		states := s.afterMap(calm, name, i, blocked)
		for _, n := range states {
			n.links[i] = s.links[i]
			states = add(states, n)
			n.user, n.works = "none", false
			states = add(states, n)
			n.links[i] = "link"
			states = add(states, n)
		}
		if s.works && !(s.known && s.user != user && s.used(i)) { // it may have looked broken
			broken := s
			broken.works = false
			for _, n := range broken.afterMap(calm, name, i, blocked) {
				states = add(states, n)
			}
		}
		if s.down { // it went down after the request had used it
			up := s
			up.down = false
			for _, n := range up.afterMap(calm, name, i, blocked) {
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
		case name == "MapWrong": // the server never accepts it
			return nil
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
		case blocked && s.user != user:
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
