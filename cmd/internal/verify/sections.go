package verify

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/kubernetes-csi/csi-proxy/v2/internal/node"
	"github.com/kubernetes-csi/csi-proxy/v2/internal/win32"
	"github.com/kubernetes-csi/csi-proxy/v2/internal/win32/filestatus"
	"github.com/kubernetes-csi/csi-proxy/v2/pkg/conformance"
	"github.com/kubernetes-csi/csi-proxy/v2/pkg/system"
)

// section is a part of the run, which has a child process of its own.
type section struct {
	name string
	does string
	run  func(*testing.T, options)
}

// The names of sections. Those of which there is one for each backend have its name at
// the end.
const (
	questionsSection = "questions"
	statusesSection  = "statuses"
	contractPrefix   = "contract-"
)

// sections returns all sections, in the order in which they run. A simulated node has one
// way to format, so one backend is enough there.
func sections(o options) []section {
	if o.FirstContact {
		return []section{{questionsSection, "asks the ten questions on which most depends", runQuestions}}
	}
	all := []section{
		{questionsSection, "asks the questions below", runQuestions},
		{statusesSection, "asks for the status of each file call that specifications define", runStatuses},
	}
	for i, b := range backends {
		if o.Simulated && i > 0 {
			break
		}
		all = append(all, section{contractPrefix + string(b), fmt.Sprintf("runs the contract of a node (pkg/conformance), formatting with backend %s", b),
			func(t *testing.T, o options) { runContract(t, o, b, false) }})
	}
	return append(all, section{contractPrefix + "pipes", "runs it through pipes of its own, with the server and the rules of the daemon",
		func(t *testing.T, o options) { runContract(t, o, backends[0], true) }})
}

// runStatuses asks what calls of files return. A row that Wine answers in another way
// counts as skipped there.
func runStatuses(t *testing.T, o options) {
	p := newPlace(t, o, backends[0])
	for i, r := range filestatus.Rows() {
		t.Run(r.Name, func(t *testing.T) {
			dir := p.directory(fmt.Sprintf("row%d", i))
			got := r.Got(p.node.API, dir)
			switch {
			case o.Wine && r.Wine != "" && got == r.Wine:
				t.Skip("Wine returns " + got)
			case got != r.Expected():
				t.Errorf("%s, and %s says %s", got, r.Source, r.Expected())
			}
		})
	}
}

// initiatorCases are the cases that start and stop the iSCSI initiator, a service of the
// machine.
var initiatorCases = []string{"/system/iSCSI_initiator_is_started_and_stopped_repeatedly", "/system/service_names_ignore_case"}

// initiator is that service.
const initiator = "MSiSCSI"

// borrowInitiator skips the test unless it may start and stop the initiator, which stops
// at its end.
func (p *place) borrowInitiator() {
	p.Helper()
	if !p.o.MachineSettings {
		p.Skip("starts and stops a service of the machine: needs -machine-settings")
	}
	status, err := p.node.API.ServiceStatus(initiator)
	p.need(err)
	if status.State != win32.SERVICE_STOPPED {
		p.Skip("the service " + initiator + " is in use")
	}
	p.need(p.KeepStopped(initiator))
	p.Cleanup(func() {
		if _, err := p.services.System.StopService(context.Background(), &system.StopServiceRequest{Name: initiator}); err != nil {
			p.Error(err)
		}
	})
}

// wineLacks is why most of the program cannot run under Wine.
const wineLacks = "Wine has no virtual disks, mounts and reparse points"

// wineGroups are the groups of the contract that Wine supports, without the cases in
// notUnderWine.
var wineGroups = []string{"filesystem", "system"}

// notUnderWine are parts of the names of cases of these groups, and what Wine lacks for
// them.
var notUnderWine = map[string]string{
	"link":                    "Wine has no reparse points",
	"files_are_found":         "Wine has no reparse points",
	"directory_is_emptied":    "Wine has no reparse points",
	"unusual_names":           "Wine has no reparse points",
	"paths_of_up_to":          "Wine has no reparse points",
	"paths_without_a_drive":   "Wine has no reparse points",
	"PathValid":               "Wine has no reparse points",
	"iSCSI":                   "Wine has no service MSiSCSI",
	"ignore_case":             "Wine has no service MSiSCSI",
	"service_with_dependents": "Wine stops a service although others depend on it",
	"force_does_not_stop":     "Wine stops a service although others depend on it",
	"stopped_dependents":      "Wine stops a service although others depend on it",
}

// skipUnderWine skips a case of the contract that Wine cannot run.
func skipUnderWine(t *testing.T) {
	parts := strings.Split(t.Name(), "/")
	if len(parts) < 3 || !slices.Contains(wineGroups, parts[1]) {
		t.Skip("needs Windows: " + wineLacks)
	}
	for name, why := range notUnderWine {
		if strings.Contains(parts[2], name) {
			t.Skip("needs Windows: " + why)
		}
	}
}

// runContract runs the contract, which the simulated node passes everywhere else.
func runContract(t *testing.T, o options, b node.Backend, pipes bool) {
	run := conformance.Run
	if o.Simulated {
		run = conformance.RunConcurrently // each case has a node of its own
	}
	run(t, func(t *testing.T, setup conformance.Setup) *conformance.Node {
		if setup != (conformance.Setup{}) {
			t.Skip("needs a node that is set up for this case: the simulated node runs it")
		}
		if o.Wine {
			skipUnderWine(t)
		}
		p := newPlace(t, o, b)
		if slices.ContainsFunc(initiatorCases, func(name string) bool { return strings.HasSuffix(t.Name(), name) }) {
			p.borrowInitiator()
		}
		var systemDisk uint32
		if !o.Wine {
			systemDisk = p.systemDisk()
		}
		n := &conformance.Node{
			Disk: p.services.Disk, Volume: p.services.Volume, Filesystem: p.services.Filesystem, System: p.services.System,
			Dir:         p.dir,
			SystemDisk:  systemDisk,
			Attach:      p.Attach,
			Detach:      p.Detach,
			Grow:        p.Grow,
			SetService:  p.SetService,
			MakeFile:    p.MakeFile,
			Fail:        p.fail,
			Heal:        p.faults.Clear,
			OpenHandles: func() ([]string, error) { return p.open.Open(), nil },
		}
		if pipes {
			p.throughPipes(n)
		}
		return n
	})
}

// child runs a section in this process, as a test program does, and ends the process.
func child(o options) error {
	for _, s := range sections(o) {
		if s.name == o.Section {
			test := testing.InternalTest{Name: s.name, F: func(t *testing.T) { s.run(t, o) }}
			testing.Main(matches, []testing.InternalTest{test}, nil, nil)
		}
	}
	return errors.New("no section " + o.Section)
}
