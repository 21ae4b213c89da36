package hunt_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/anishathalye/porcupine"

	"github.com/kubernetes-csi/csi-proxy/v2/pkg/hosterr"
	"github.com/kubernetes-csi/csi-proxy/v2/pkg/system"
)

// operation is a request and its answer, an event, or an observation of the node.
type operation struct {
	who, object, op  string
	value            string // what the answer says
	err              error
	unknown          bool   // there was no answer
	disturbed        bool   // something happened meanwhile that may make it fail
	met              bool   // another request ran meanwhile that may make it fail
	half             string // of an operation that changes two things one after the other: which
	called, returned int64
}

func (o operation) String() string {
	answer := describeAnswer(o.value, o.err)
	if o.unknown {
		answer = "no answer"
	}
	if o.disturbed {
		answer += ", disturbed"
	}
	return fmt.Sprintf("%d–%d %s: %s = %s", o.called, o.returned, o.who, o.op, answer)
}

// succeeded reports whether the operation was answered, and not with an error.
func (o operation) succeeded() bool { return o.err == nil && !o.unknown }

// checkLimit is how long the search for an order may take. A history that needs more, because
// many requests overlapped, stays undecided.
const checkLimit = 2 * time.Second

// tally counts histories and their operations, for the summary.
type tally struct{ histories, operations, undecided int }

// linearizable returns why the answers about an object are not possible one after the other,
// or "".
func (w *world) linearizable(history []operation) string {
	for _, o := range w.objects {
		for _, part := range o.parts() {
			model := porcupine.NondeterministicModel{
				Init: func() []any { return []any{o.first(part)} },
				Step: func(state, in, _ any) []any { return o.step(part, state, in.(operation)) },
			}
			var ops []porcupine.Operation
			var text strings.Builder
			for _, op := range history {
				if op.object != o.name() {
					continue
				}
				op.met = slices.ContainsFunc(history, func(other operation) bool {
					return other.object == op.object && other.overlaps(op) && meets(op.op, other.op)
				})
				if !o.about(part, op) {
					continue
				}
				for _, half := range o.halves(part, op) {
					ops = append(ops, porcupine.Operation{Input: half, Call: op.called, Return: op.returned})
				}
				fmt.Fprintf(&text, "\n\t%s", op)
			}
			w.tally.histories++
			w.tally.operations += len(ops)
			switch porcupine.CheckOperationsTimeout(model.ToModel(), ops, checkLimit) {
			case porcupine.Illegal:
				return fmt.Sprintf("the answers about %s %s are not possible in any order:%s", o.name(), part, &text)
			case porcupine.Unknown:
				w.tally.undecided++
			}
		}
	}
	return ""
}

// diskState is the state of a disk, its volume, and the directories for it.
type diskState struct {
	here   int  // 0: detached, 1: attached and perhaps not seen yet, 2: seen
	comes  bool // it is not seen yet, and Windows was asked to look
	number string
	online bool
	lent   bool // it is online perhaps only until Windows restarts
	up     bool // its volume has arrived and is online, for sure
	table  int  // 0: blank, 1: a table, 2: a partition
	fs     int  // 0: none, 1: NTFS, 2: a format was cut off, or goes on without its process
	files  int
	dirs   [2]bool
	mounts [2]bool
	size   int // generations: of the disk,
	seen   int // at least this one is known to Windows,
	length int // of the partition,
	extent int // of the file system
}

func (o *diskObject) parts() []string              { return []string{""} }
func (o *diskObject) about(string, operation) bool { return true }
func (o *diskObject) first(string) any {
	s := diskState{here: 2, online: true, up: true}
	if s.number = strings.TrimPrefix(o.id, "disk"); o.id == "disk2" {
		s.table, s.fs = 2, 1
	}
	return s
}

// ready reports whether the volume can be used.
func (s diskState) ready() bool { return s.here == 2 && s.online && s.up && s.table == 2 }

// options returns the states that one of two values of a field gives.
func options(states []any, change func(*diskState)) []any {
	for _, s := range slices.Clone(states) {
		d := s.(diskState)
		change(&d)
		if !slices.Contains(states, any(d)) {
			states = append(states, any(d))
		}
	}
	return states
}

// each changes all states, and drops those for which change returns false.
func each(states []any, change func(*diskState) bool) (changed []any) {
	for _, s := range states {
		d := s.(diskState)
		if change(&d) && !slices.Contains(changed, any(d)) {
			changed = append(changed, any(d))
		}
	}
	return changed
}

func (o *diskObject) step(_ string, state any, op operation) []any {
	s := state.(diskState)
	if s.fs == 2 { // the format may have ended
		ended := s
		ended.fs, ended.extent = 1, s.length
		return append(o.stepFrom(s, op), o.stepFrom(ended, op)...)
	}
	return o.stepFrom(s, op)
}

func (o *diskObject) stepFrom(s diskState, op operation) []any {
	name, at := split(op.op)
	i := 0
	if at != "" {
		i = int(at[0] - '0')
	}
	states := []any{s}
	switch op.who {
	case "event":
		switch name {
		case "detach":
			states = each(states, func(d *diskState) bool { d.here, d.comes, d.up = 0, false, false; return s.here > 0 })
			return options(states, func(d *diskState) { d.files = 0 }) // what was not flushed
		case "attach":
			states = each(states, func(d *diskState) bool { d.here, d.seen, d.number = 1, d.size, op.value; return s.here == 0 })
			return options(states, func(d *diskState) { d.online = !d.online })
		case "grow":
			return each(states, func(d *diskState) bool { d.size++; return s.here > 0 })
		case "put":
			return each(states, func(d *diskState) bool {
				d.files = 1
				return s.mounts[i] && s.fs == 1 && s.here > 0 && s.online && s.table == 2
			})
		case "offline":
			states = each(states, func(d *diskState) bool { d.online, d.up = false, false; return s.here > 0 })
			return options(states, func(d *diskState) { d.files = 0 })
		case "reboot":
			if s.lent {
				states = options(states, func(d *diskState) { d.online = false })
			}
			return each(states, func(d *diskState) bool {
				d.lent = false
				d.seen, d.up, d.number = d.size, false, op.value
				if d.here == 1 {
					d.here, d.comes = 2, false
				}
				return true
			})
		}
	case "observed":
		return each(states, func(d *diskState) bool {
			if strings.HasPrefix(op.value, "here=2") && s.here == 1 { // a disk may arrive by itself
				d.here, d.comes = 2, false
			}
			return observed(*d, op.value)
		})
	}
	if name == "Find" && op.disturbed && op.value == "none" {
		return states // the disk could not be asked
	}
	if !op.succeeded() {
		if !op.unknown && !op.disturbed && !s.mayFail(name, i, op.err) {
			return nil
		}
		states = append(s.partly(name, i), s.done(name, i, "")...)
	} else {
		states = s.done(name, i, op.value)
	}
	if op.succeeded() && op.disturbed && (name == "Online" || name == "Partition") { // the wait for its volume may have failed
		states = options(states, func(d *diskState) { d.up = false })
	}
	if (op.unknown || op.disturbed) && name == "Partition" { // while it waits for the volume it brings the disk online again
		states = options(states, (*diskState).lend)
	}
	return states
}

// lend takes the disk online to look at it, which Windows does not keep.
func (s *diskState) lend() { s.lent, s.online, s.up = s.lent || !s.online, true, false }

// observed reports whether a state is the one that was observed.
func observed(s diskState, text string) bool {
	for _, field := range strings.Fields(text) {
		key, value, _ := strings.Cut(field, "=")
		var have string
		switch key {
		case "here":
			have = fmt.Sprint(s.here)
		case "rest": // nothing has run for minutes
			have = map[bool]string{true: "false", false: value}[s.comes]
		case "online":
			have = fmt.Sprint(s.online)
		case "style":
			have = map[bool]string{true: "GPT", false: "RAW"}[s.table > 0]
		case "parts":
			have = fmt.Sprint(max(0, s.table-1))
		case "fs":
			if s.fs == 2 {
				continue
			}
			have = fmt.Sprint(s.fs == 1)
		case "entries":
			if s.fs != 1 {
				continue
			}
			have = fmt.Sprint(1 + s.files)
		case "dir0", "dir1":
			have = fmt.Sprint(s.dirs[key[3]-'0'])
		case "mount0", "mount1":
			have = fmt.Sprint(s.mounts[key[5]-'0'])
		}
		if have != value {
			return false
		}
	}
	return true
}

// done returns the states after an operation that succeeded with a value, or none if it could
// not. The value "" stands for any.
func (s diskState) done(name string, i int, value string) []any {
	is := func(have string) bool { return value == "" || value == have }
	volume := func(change func(*diskState) bool) []any {
		return each([]any{s}, func(d *diskState) bool {
			d.here, d.comes, d.up = 2, false, true
			return s.here > 0 && s.online && s.table == 2 && (change == nil || change(d))
		})
	}
	disk := func(change func(*diskState)) []any {
		return each([]any{s}, func(d *diskState) bool {
			d.here, d.comes = 2, false
			if change != nil {
				change(d)
			}
			return s.here > 0
		})
	}
	ifTrue := func(ok bool) []any {
		if !ok {
			return nil
		}
		return []any{s}
	}
	switch name {
	case "Rescan":
		return each([]any{s}, func(d *diskState) bool {
			d.seen = d.size
			d.comes = d.here == 1
			return true
		})
	case "Find":
		if s.here < 2 && is("none") {
			return []any{s}
		}
		return each(disk(nil), func(*diskState) bool { return is(s.number) })
	case "Partition":
		states := disk(func(d *diskState) {
			if d.table < 2 {
				d.table, d.online, d.length = 2, true, d.seen
			}
			d.up = d.online
		})
		if s.table < 2 {
			for n := s.seen + 1; n <= s.size; n++ {
				states = options(states, func(d *diskState) { d.length = n })
			}
		}
		return states
	case "Online", "Offline":
		return disk(func(d *diskState) { d.online, d.lent, d.up = name == "Online", false, name == "Online" })
	case "State":
		return each(disk(nil), func(d *diskState) bool { return is(fmt.Sprint(d.online)) })
	case "List":
		if s.here == 0 || s.here == 1 && is("0") || s.table < 2 {
			return ifTrue(is("0"))
		}
		return ifTrue(!s.online || !s.up || is("1"))
	case "Format":
		return volume(func(d *diskState) bool {
			if d.fs != 1 {
				d.fs, d.files, d.extent = 1, 0, d.length
			}
			return d.files == 0
		})
	case "IsFormatted":
		return volume(func(d *diskState) bool { return is(fmt.Sprint(d.fs == 1)) })
	case "Flush":
		return volume(nil)
	case "Stats":
		return volume(func(d *diskState) bool {
			if d.fs != 1 {
				return is("-1") || d.fs == 2
			}
			return is(fmt.Sprint(d.extent))
		})
	case "Resize":
		var states []any
		for n := s.seen; n <= s.size; n++ {
			states = append(states, volume(func(d *diskState) bool {
				d.length = max(d.length, n)
				if d.fs == 1 {
					d.extent = d.length
				}
				return true
			})...)
		}
		return states
	case "Mkdir":
		return each([]any{s}, func(d *diskState) bool { d.dirs[i] = true; return true })
	case "Rmdir":
		return each([]any{s}, func(d *diskState) bool {
			d.dirs[i], d.mounts[i] = false, false
			return s.dirs[i]
		})
	case "Exists":
		return ifTrue(is(fmt.Sprint(s.dirs[i])))
	case "Mount":
		return volume(func(d *diskState) bool { d.mounts[i] = true; return d.dirs[i] })
	case "Unmount":
		return each([]any{s}, func(d *diskState) bool { d.mounts[i] = false; return true })
	case "IsMounted":
		return ifTrue(s.mounts[i] && is("true"))
	}
	return nil
}

// partly returns the states in which an operation may stop.
func (s diskState) partly(name string, i int) []any {
	states := []any{s}
	if name == "Rmdir" && s.dirs[i] { // it removes the mount before the directory
		return options(states, func(d *diskState) { d.mounts[i] = false })
	}
	if s.here == 0 {
		return states
	}
	switch name {
	case "Partition":
		if s.table < 2 {
			states = options(states, (*diskState).lend)
			states = options(states, func(d *diskState) { d.lend(); d.table = 1 })
			for n := s.seen; n <= s.size; n++ {
				states = options(states, func(d *diskState) { d.lend(); d.table, d.length = 2, n })
			}
		}
	case "Online", "Offline":
		if name == "Online" && s.lent { // a look left it read-only, and it is made writable offline
			states = options(states, func(d *diskState) { d.online, d.lent, d.up = false, false, false })
		}
		states = options(states, func(d *diskState) { d.online, d.lent, d.up = name == "Online", false, false })
	case "Format":
		if s.table == 2 && s.files == 0 {
			states = options(states, func(d *diskState) { d.fs, d.files = 2, 0 })
		}
	case "Resize":
		for n := s.seen; n <= s.size && s.table == 2; n++ {
			states = options(states, func(d *diskState) { d.length = max(d.length, n) })
			if s.fs == 1 {
				states = options(states, func(d *diskState) { d.extent = max(d.extent, d.length) })
			}
		}
	}
	return states
}

// mayFail reports whether an operation may fail in a state with an error while nothing
// disturbs it.
func (s diskState) mayFail(name string, i int, err error) bool {
	kind := func(kinds ...error) bool {
		return slices.ContainsFunc(kinds, func(k error) bool { return errors.Is(err, k) })
	}
	if slices.Contains([]string{"Mkdir", "Rmdir", "Exists", "Mount", "Unmount", "IsMounted"}, name) && s.mounts[i] && !(s.ready() && s.fs == 1) {
		return true // the path leads to a volume that has no files
	}
	switch name {
	case "Partition", "Online", "Offline", "State":
		return s.here < 2 && kind(hosterr.ErrNotFound, hosterr.ErrUnavailable)
	case "Format":
		return !s.ready() || s.fs == 1 && s.files > 0 && kind(hosterr.ErrFailedPrecondition) || s.fs == 2 && kind(hosterr.ErrFailedPrecondition, hosterr.ErrUnavailable)
	case "IsFormatted":
		return !s.ready() || s.fs == 2 && kind(hosterr.ErrFailedPrecondition, hosterr.ErrUnavailable)
	case "Flush", "Stats":
		return !s.ready() || s.fs == 2
	case "Resize":
		return !s.ready() || s.fs != 1
	case "Rmdir":
		return !s.dirs[i] && kind(hosterr.ErrNotFound)
	case "Mount":
		return !s.ready() || !s.dirs[i] && kind(hosterr.ErrNotFound)
	case "IsMounted":
		return !s.mounts[i] || !s.ready()
	}
	return false
}

func (o *foreignObject) parts() []string              { return []string{""} }
func (o *foreignObject) about(string, operation) bool { return true }
func (o *foreignObject) first(string) any             { return true }

// step refuses answers that say that a foreign disk was partitioned, formatted or mounted.
func (o *foreignObject) step(_ string, state any, op operation) []any {
	name, _ := split(op.op)
	if op.succeeded() && (name == "Partition" && o.id == "foreign3" || slices.Contains([]string{"Format", "Mount", "Resize"}, name)) {
		return nil // PartitionDisk leaves a disk with partitions as it is
	}
	return []any{state}
}

// A part of a tree is one of its paths. It is "none", or "some" for a directory. The path of
// the link may also be a "link", a link that is "loose" because its target was missing when
// it was made, or a directory that was going to become a link. The part of the link has the
// state of its target as well, on which it depends whether it counts as one.
func (o *treeObject) parts() []string { return treePaths }
func (o *treeObject) first(part string) any {
	if part == treeLink {
		return linkState{"none", "none"}
	}
	return "none"
}

// linkState is the state of the path of the link, and of that of its target.
type linkState struct{ link, target string }

const treeTarget = `\d`

// halves splits what an operation does to the link and to its target, because others may see one
// without the other.
func (o *treeObject) halves(part string, op operation) []operation {
	if part != treeLink || op.op == "IsLink" || op.op == "observe" {
		return []operation{op}
	}
	var all []operation
	for _, half := range []string{treeLink, treeTarget} {
		if op.half = half; o.touches(half, op) {
			all = append(all, op)
		}
	}
	return all
}

// writes returns what an operation of a tree does to a path: "true", "false", "" for
// nothing, or "any".
func treeWrites(part string, op string) string {
	gone := func(prefix string) string {
		if part == prefix || strings.HasPrefix(part, prefix+`\`) {
			return "false"
		}
		return ""
	}
	made := func(paths ...string) string {
		if slices.Contains(paths, part) {
			return "true"
		}
		return ""
	}
	switch op {
	case "MkdirB":
		return made("", `\a`, `\a\b`)
	case "MkdirD":
		return made("", `\d`)
	case "Link":
		return made(`\link`)
	case "RmdirA":
		return gone(`\a`)
	case "RmdirAll":
		return "false"
	case "RmdirLink":
		return gone(`\link`)
	case "RmdirB":
		return gone(`\a\b`)
	case "RmdirD", "lose":
		return gone(`\d`)
	case "Empty":
		if part != "" {
			return "false"
		}
	case "swap":
		switch part {
		case `\d`:
			return "false"
		case `\a\b`:
			return "true"
		}
	}
	return ""
}

// treeReads returns the path that an operation asks for.
func treeReads(op string) (part string, ok bool) {
	if name, at := split(op); name == "Exists" {
		return treePaths[at[0]-'0'], true
	}
	return "", false
}

func (o *treeObject) about(part string, op operation) bool {
	return o.touches(part, op) || part == treeLink && (op.op == "observe" || op.op == "IsLink" || o.touches(treeTarget, op))
}

// touches reports whether an operation reads or writes a path, or fails because it is missing.
func (o *treeObject) touches(part string, op operation) bool {
	asked, reads := treeReads(op.op)
	return reads && asked == part || treeWrites(part, op.op) != "" || op.renamed(part) || op.calmError() && treeNeeds(op.op) == part
}

// calmError reports whether an operation failed although nothing disturbed it.
func (o operation) calmError() bool { return o.err != nil && !o.unknown && !o.disturbed && !o.met }

// overlaps reports whether two operations ran at the same time.
func (o operation) overlaps(other operation) bool {
	return (o.returned == 0 || other.called < o.returned) && (other.returned == 0 || o.called < other.returned)
}

// meets reports whether an operation may fail because of another one that runs at the same time.
// Those of one service wait for each other, but not for those of the service that it needs. A
// query does not wait for removals, and Windows refuses access to what is being removed. A mapping
// is removed and made again for another user; meanwhile its links cannot be reached.
func meets(op, other string) bool {
	switch op {
	case "Start", "Stop":
		return other == "StopBase"
	case "StopBase":
		return other == "Start" || other == "Stop"
	case "IsLink0", "IsLink1":
		return strings.HasPrefix(other, "Map")
	}
	_, reads := treeReads(op)
	return (reads || op == "IsLink") && (strings.HasPrefix(other, "Rmdir") || other == "Empty")
}

// treeNeeds returns the path without which an operation fails.
func treeNeeds(op string) string {
	switch op {
	case "RmdirA":
		return `\a`
	case "RmdirB":
		return `\a\b`
	case "RmdirD":
		return treeTarget
	case "RmdirLink", "IsLink":
		return treeLink
	case "RmdirAll", "Empty", "Link":
		return ""
	}
	return "nothing"
}

// renamed reports whether an operation may have removed a directory that another program gave
// the name of a part meanwhile.
func (o operation) renamed(part string) bool {
	return o.disturbed && o.op == "RmdirD" && part == `\a\b`
}

func (o *treeObject) step(part string, state any, op operation) []any {
	if part != treeLink {
		return o.stepPath(part, state, op)
	}
	s := state.(linkState)
	if op.op == "IsLink" {
		switch {
		case op.calmError() && s.link != "none",
			op.value == "true" && s.link != "link" && s.link != "loose",
			op.value == "false" && s.link == "link" && s.target == "some" && !op.disturbed:
			return nil
		}
		return []any{s}
	}
	var all []any
	if op.half == treeTarget {
		for _, target := range o.stepPath(treeTarget, s.target, op) {
			all = append(all, linkState{s.link, target.(string)})
		}
		return all
	}
	for _, link := range o.stepPath(treeLink, s.link, op) {
		all = append(all, linkState{link.(string), s.target})
	}
	return all
}

// stepPath returns the states of one path after an operation.
func (o *treeObject) stepPath(part string, state any, op operation) []any {
	if _, reads := treeReads(op.op); reads {
		if op.calmError() || op.succeeded() && op.value != fmt.Sprint(state != "none") {
			return nil
		}
		return []any{state}
	}
	if op.calmError() && op.op != "Link" {
		// An error must have a reason: the path is missing.
		if !errors.Is(op.err, hosterr.ErrNotFound) || treeNeeds(op.op) == part && state != "none" || treeNeeds(op.op) == "nothing" {
			return nil
		}
		return []any{state}
	}
	switch {
	case op.renamed(part):
		return []any{state, "none"}
	case op.op == "observe":
		if op.value != state {
			return nil
		}
		return []any{state}
	case op.op != "Link":
		after := "none"
		if treeWrites(part, op.op) == "true" {
			after = "some"
		}
		if !op.succeeded() || op.disturbed && op.who != "event" {
			return []any{state, after}
		}
		return []any{after}
	case op.succeeded() && state == "none":
		return []any{"link", "loose"}
	case op.succeeded():
		if state == "some" {
			return nil
		}
	case !op.succeeded() && (op.unknown || op.disturbed):
		return []any{state, "link", "loose", "some"}
	case errors.Is(op.err, hosterr.ErrNotFound): // the directory is missing
		if part == "" && state != "none" {
			return nil
		}
	case part == "": // another reason, which is that of the link's path
	case errors.Is(op.err, hosterr.ErrAlreadyExists) && strings.Contains(op.err.Error(), "of the other kind"):
		if state != "loose" { // its target came since it was made
			return nil
		}
	case !errors.Is(op.err, hosterr.ErrAlreadyExists) || state != "some":
		return nil
	}
	return []any{state}
}

// The state of a service: whether it runs, and whether the one that it needs does.
func (o *serviceObject) parts() []string              { return []string{""} }
func (o *serviceObject) about(string, operation) bool { return true }
func (o *serviceObject) first(string) any             { return "stopped" }

// step knows what a service is after a request that succeeded. One that is starting or
// stopping is on its way between them.
func (o *serviceObject) step(_ string, state any, op operation) []any {
	switch {
	case op.op == "reboot":
		return []any{"stopped"}
	case op.op == "observe":
		if op.value == state || strings.HasSuffix(op.value, "pending") && state == "moving" {
			return []any{state}
		}
		if state == "moving" {
			return []any{op.value}
		}
		return nil
	case op.op == "Get":
		running, stopped := fmt.Sprint(system.SERVICE_STATUS_RUNNING), fmt.Sprint(system.SERVICE_STATUS_STOPPED)
		if op.calmError() || op.succeeded() && (op.value == running && state == "stopped" || op.value == stopped && state == "running") {
			return nil
		}
		return []any{state}
	}
	after := "stopped"
	if op.op == "Start" {
		after = "running"
	}
	if op.calmError() {
		return nil
	}
	if !op.succeeded() {
		return []any{state, after, "moving"}
	}
	return []any{after}
}
