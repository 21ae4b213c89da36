package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/kubernetes-csi/csi-proxy/v2/internal/apiserver/serve"
	"github.com/kubernetes-csi/csi-proxy/v2/internal/node"
	"github.com/kubernetes-csi/csi-proxy/v2/internal/policy"
	"github.com/kubernetes-csi/csi-proxy/v2/internal/services"
	"github.com/kubernetes-csi/csi-proxy/v2/internal/win32"
	"github.com/kubernetes-csi/csi-proxy/v2/internal/win32/emulated"
	"github.com/kubernetes-csi/csi-proxy/v2/internal/win32/emulated/behavior"
	"github.com/kubernetes-csi/csi-proxy/v2/internal/wire"
	"github.com/kubernetes-csi/csi-proxy/v2/pkg/rules"
	"github.com/kubernetes-csi/csi-proxy/v2/pkg/simnode/nodespec"
)

// The volume of the matrix, as a driver stages it.
const (
	matrixDir = `C:\var\lib\kubelet\plugins\kubernetes.io\csi\disk.example.com`
	matrixAt  = matrixDir + `\a\globalmount`
)

// servedNode is a simulated node with csi-proxy, in memory, so that its time is that of a bubble.
type servedNode struct {
	memory
	t          *testing.T
	bare       *emulated.Node
	letter, id string // the IDs of the volume C: and, once it was listed, of the one of the matrix

	mu   sync.Mutex
	hook func(*win32.Call) error
}

// newServed serves a node until the test ends.
func newServed(t *testing.T, windows behavior.Windows) *servedNode {
	n := &servedNode{t: t, memory: memory{}}
	must := func(err error) {
		if err != nil {
			t.Helper()
			t.Fatal(err)
		}
	}
	kept := rules.Rules{WorkingDirs: []string{`C:\var\lib\kubelet`}}
	quiet := slog.New(slog.DiscardHandler)
	var err error
	n.bare, err = emulated.Open(nodespec.Config{World: behavior.In("", windows), Rules: kept, Log: quiet}, emulated.Machine{Rand: fixed{}})
	must(err)
	host := node.New(win32.Observe(n.bare, n.observe))
	host.Log, host.Rules = quiet, kept
	host.Trace(win32.NewCounts())
	s, err := services.Open(host)
	must(err)
	dirs, err := policy.ParseDirs(kept.WorkingDirs)
	must(err)
	groups := wire.Groups{Disk: s.Disk, Filesystem: s.Filesystem, ISCSI: s.ISCSI, SMB: s.SMB, System: s.System, Volume: s.Volume, Check: (&policy.Rules{Dirs: dirs}).Check}
	stop, err := n.serve(serve.Config{Steps: host.Steps}, wire.Services(groups), s.Disk, true)
	must(err)
	t.Cleanup(func() {
		n.set(nil)
		must(stop())
		must(n.bare.Close())
	})
	n.letter, err = n.bare.VolumeNameForMountPoint(`C:\`)
	must(err)
	return n
}

// fixed is random bytes that are the same in every run.
type fixed struct{}

var drawn byte

func (fixed) Read(b []byte) (int, error) {
	for i := range b {
		drawn += 7
		b[i] = drawn
	}
	return len(b), nil
}

// observe makes a Win32 call, or what the hook makes of it.
func (n *servedNode) observe(c *win32.Call) error {
	n.mu.Lock()
	hook := n.hook
	n.mu.Unlock()
	if hook == nil || c.Name == "CloseHandle" {
		return c.Do()
	}
	return hook(c)
}

func (n *servedNode) set(hook func(*win32.Call) error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.hook = hook
}

// ctl runs csi-proxyctl and returns what it prints.
func (n *servedNode) ctl(into any, args ...string) {
	n.t.Helper()
	var out bytes.Buffer
	a := &app{stdin: strings.NewReader(""), stdout: &out, stderr: io.Discard, connect: n.connect}
	root := a.command()
	root.SetArgs(append(args, "--output=json"))
	err := root.ExecuteContext(n.t.Context())
	if failed := json.Unmarshal(out.Bytes(), into); failed != nil {
		n.t.Errorf("csi-proxyctl %q: %v, %v", args, err, failed)
	}
}

// A said is what a command says, one for each finding.
type said struct{ result, text, remedy string }

func (n *servedNode) doctor() (all []said) {
	var found []finding
	n.ctl(&found, "doctor")
	for _, f := range found {
		all = append(all, said{f.Result, f.Check + ": " + f.What, f.Hint})
	}
	return all
}

func (n *servedNode) why(about string) []said {
	var e explanation
	n.ctl(&e, "why", about)
	text := e.Cause
	for _, s := range e.Steps {
		text += "\n" + s.Kind + ": " + s.What
	}
	return []said{{e.Result, text, e.Remedy}}
}

// A step is a Win32 call that an operation makes, and its object.
type step struct {
	op         int
	name, path string
	code       uint32
}

func (s step) String() string {
	name := s.name
	if s.code != 0 {
		name += " " + win32.CodeName(s.name, s.code)
	}
	return name
}

// object returns what a call is about, by one name.
func (n *servedNode) object(c *win32.Call) string {
	if drive := n.bare.DriveOf(c.Path); drive != "" {
		return drive
	}
	return c.Path
}

// matrixSteps returns the calls of the life of a volume.
func matrixSteps(t *testing.T) (all []step) {
	synctest.Test(t, func(t *testing.T) {
		drawn = 0
		n := newServed(t, behavior.Windows{})
		op := 0
		var mu sync.Mutex
		n.set(func(c *win32.Call) error {
			mu.Lock()
			s := step{op, c.Name, n.object(c), c.Code}
			if !slices.ContainsFunc(all, func(o step) bool { return o.op == s.op && o.name == s.name && o.code == s.code }) {
				all = append(all, s)
			}
			mu.Unlock()
			return c.Do()
		})
		for _, line := range operations() {
			if err := n.call(t.Context(), line); err != nil {
				t.Fatalf("%s: %v", line, err)
			}
			mu.Lock()
			op++
			mu.Unlock()
		}
	})
	return all
}

// everyCell is the environment variable with which the matrix has every call of every operation, as
// make soak does. Otherwise it has each call once.
const everyCell = "CSI_PROXY_EVERY_CELL"

// The faults of a call.
const (
	faultFails = "fails" // with an error of Windows
	faultHangs = "hangs" // until it is released
	faultLies  = "lies"  // reports success, and does nothing
)

// unnamed are the cells in which a command does not name the fault, each with its reason.
var unnamed = map[string]string{}

// While a Win32 call of a volume's life fails, hangs or lies, doctor and why name the fault, or say
// that something is unknown. None is ok unless the life completes, and no advice does harm.
func TestMatrix(t *testing.T) {
	if testing.Short() {
		t.Skip("takes too long with -short; make test runs it")
	}
	steps := matrixSteps(t)
	seen := map[string]bool{}
	counts := map[string]int{}
	turn := 0
	for _, s := range steps {
		first := !seen[s.String()]
		seen[s.String()] = true
		every := os.Getenv(everyCell) != ""
		if !first && !every {
			continue
		}
		faults := []string{faultFails, faultHangs}
		if !every {
			faults = faults[turn%2:][:1]
		}
		turn++
		// SetInformation is left out: what stays although it was removed is removed again and again.
		if slices.Contains([]string{"SetMountPoint", "DeleteMountPoint", "Format", "WriteAt", "FlushFileBuffers"}, s.name) {
			faults = append(faults, faultLies)
		}
		for _, fault := range faults {
			counts["cells"]++
			c := cell{step: s, fault: fault}
			c.run(t)
			if c.completed {
				counts["completed"]++
				continue
			}
			for _, look := range c.looks {
				counts["looks"]++
				what := fmt.Sprintf("%s: %s of %s %s", look.command, s, operations()[s.op], fault)
				switch worst := look.worst(); {
				case look.names(c.marks):
					counts["named"]++
				case worst == resultOK:
					counts["false all-clear"]++
					t.Errorf("%s: ok, but the operation %s", what, c.end)
				case unnamed[what] != "":
					counts[worst+", listed"]++
				default:
					t.Errorf("%s is not named; the operation %s; it says %+v", what, c.end, look.said)
				}
			}
		}
	}
	if counts["named"]*10 < counts["looks"]*9 {
		t.Errorf("of %d looks, %d name the fault, want 90%%", counts["looks"], counts["named"])
	}
	text := fmt.Sprintf("%d cells; the life completes in %d; of %d looks in the others, %d name the fault, %d are unknown, %d have another cause, 0 are ok, 0 advise harm",
		counts["cells"], counts["completed"], counts["looks"], counts["named"], counts["unknown, listed"], counts["problem, listed"]+counts["note, listed"])
	t.Log(text)
	t.Attr("measured", text)
}

// cell is a fault of a call, and what the commands say while it lasts.
type cell struct {
	step  step
	fault string

	completed bool     // the life of the volume did, in spite of the fault
	end       string   // of the operation that did not
	marks     []string // name the fault
	looks     []heard
}

type heard struct {
	command string
	said    []said
}

func (l heard) worst() string {
	worst := resultOK
	for _, s := range l.said {
		if worse(s.result, worst) && !strings.Contains(s.text, "MSiSCSI") {
			worst = s.result
		}
	}
	return worst
}

func (l heard) names(marks []string) bool {
	return slices.ContainsFunc(l.said, func(s said) bool {
		return s.result != resultOK && slices.ContainsFunc(marks, func(mark string) bool { return strings.Contains(s.text, mark) })
	})
}

func (c *cell) run(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		drawn = 0
		n := newServed(t, behavior.Windows{})
		life, mounted := operations(), false
		for _, line := range life[:c.step.op] {
			if err := n.call(t.Context(), line); err != nil {
				t.Fatalf("%s: %v", line, err)
			}
			mounted = mounted && !strings.HasPrefix(line, "volume UnmountVolume") || strings.HasPrefix(line, "volume MountVolume")
		}
		release := make(chan struct{})
		n.set(func(call *win32.Call) error {
			if call.Name != c.step.name || call.Code != c.step.code || n.object(call) != c.step.path {
				return call.Do()
			}
			switch c.fault {
			case faultFails:
				return win32.ERROR_IO_DEVICE
			case faultLies:
				return nil
			}
			<-release
			return call.Do()
		})
		var failed error
		at, limit := c.step.op, 2*time.Minute // of the kubelet
		if c.fault != faultHangs {
			limit = 15 * time.Second // some try again until then
		}
		ended := make(chan struct{})
		go func() {
			defer close(ended)
			for ; at < len(life) && failed == nil; at++ {
				ctx, cancel := context.WithTimeout(t.Context(), limit)
				failed = n.call(ctx, life[at])
				cancel()
			}
		}()
		var patience <-chan time.Time
		if c.fault == faultHangs {
			patience = time.After(20 * time.Second)
		}
		event := "context deadline exceeded"
		select {
		case <-ended:
			if c.completed = failed == nil; !c.completed {
				event = failed.Error()
				if s := statusIn(failed); s != nil {
					event = s.Message()
				}
				c.end = fmt.Sprintf("%s failed: %s", life[at-1], event)
				c.marks = []string{event, win32.ERROR_IO_DEVICE.Error(), "has not ended"}
			}
		case <-patience:
			c.end, c.marks = "hangs", []string{"has not ended", "answer"}
		}
		event = `could not stage the volume at ` + strconv.Quote(matrixAt) + ": " + event
		event = `MountVolume.MountDevice failed for volume "pvc-1" : rpc error: code = Internal desc = ` + event
		c.looks = []heard{{"doctor", n.doctor()}, {"why", n.why(event)}}
		for _, l := range append(c.looks, heard{"why 1", n.why("1")}) {
			for _, s := range l.said {
				is := free
				if mounted {
					is = used
				}
				if strings.Contains(s.text, `C:\,`) || strings.Contains(s.text, "disk 0") {
					is = ofWindows
				}
				if harmful(is, s.remedy) {
					t.Errorf("%s, while %s %s: %s\n> %s", l.command, c.step, c.fault, s.text, s.remedy)
				}
			}
		}
		close(release)
		<-ended
		n.set(nil)
		time.Sleep(time.Minute) // what was asked while it hung ends
	})
}

// On a healthy node nothing is unknown, whatever its Windows does.
func TestHealthyNode(t *testing.T) {
	for i := range 5 {
		var windows behavior.Windows
		for _, o := range behavior.All() {
			*o.Of(&windows) = o.Values[i%len(o.Values)].Name
		}
		synctest.Test(t, func(t *testing.T) {
			drawn = 0
			n := newServed(t, windows)
			for _, line := range operations() {
				if err := n.call(t.Context(), line); err != nil {
					t.Fatalf("%s: %v", line, err)
				}
				if !strings.HasPrefix(line, "disk Rescan") && !strings.HasPrefix(line, "volume ResizeVolume") {
					continue
				}
				for _, s := range slices.Concat(n.doctor(), n.why("1"), n.why(matrixAt)) {
					if s.result == resultUnknown {
						t.Errorf("world %d, after %s: %+v", i, line, s)
					}
				}
			}
		})
	}
}
