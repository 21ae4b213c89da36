// Package sanity runs csi-sanity, the test suite of the CSI specification, for a driver
// whose node service works with paths of Windows, and returns the result of each spec.
//
//	result, err := sanity.Run(log, sanity.Suite{
//		Endpoint: "127.0.0.1:10000", Controller: controllerAddress, Files: node.Filesystem(),
//	})
//
// csi-sanity itself makes and checks directories of the machine that it runs on, and puts
// `/` into paths. Here the directories are made through [Suite.Files], and the driver gets
// the paths that the kubelet uses on Windows: a staging path without a drive, and a target
// path on `c:`, each with backslashes. Where csi-sanity passes "some/path", a path that no
// kubelet passes, the driver gets a path below the kubelet's directory.
//
// The controller is not the driver's own, so only the specs of the identity and node services run.
package sanity

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"path"
	"regexp"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"github.com/kubernetes-csi/csi-test/v5/pkg/sanity"
	"github.com/onsi/ginkgo/v2"
	"github.com/onsi/ginkgo/v2/formatter"
	"github.com/onsi/ginkgo/v2/types"
	"github.com/onsi/gomega"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"

	"github.com/kubernetes-csi/csi-proxy/v2/pkg/filesystem"

	"github.com/kubernetes-csi/csi-proxy/lab/storageclass"
)

// Suite is one run of csi-sanity.
type Suite struct {
	// Endpoint is where the driver listens: host:port, or unix: and the path of a socket.
	Endpoint string
	// Controller is where the controller listens.
	Controller string
	// Files makes the kubelet's directories.
	Files filesystem.Interface

	// VolumeID returns an ID that the driver accepts, of a volume that does not exist.
	// nil means csi-sanity's own, which are plain names.
	VolumeID func(name string) string
	// Class is what the calls get in addition.
	Class storageclass.Class
}

// Result is the result of a suite.
type Result struct {
	Specs []Spec
	// Left are the kubelet's directories that the driver left something in.
	Left []string
}

// Spec is the result of one spec.
type Spec struct {
	Name    string // such as "Node Service NodeGetInfo should return appropriate values"
	State   State
	Message string // why it failed or was skipped
	// Answer is what the driver answered last before the spec failed, such as
	// "NodeStageVolume: Internal: no disk".
	Answer string
}

// String returns a spec that failed as one line.
func (s Spec) String() string {
	return fmt.Sprintf("%s  %s: %s", strings.ToUpper(string(s.State)), s.Name, strings.Join(strings.Fields(s.Answer), " "))
}

// State is what became of a spec.
type State string

// States of a spec.
const (
	Passed  State = "passed"
	Failed  State = "failed"
	Skipped State = "skipped"
)

// In returns the specs in a state.
func (r Result) In(s State) []Spec {
	return slices.DeleteFunc(slices.Clone(r.Specs), func(spec Spec) bool { return spec.State != s })
}

// String returns the counts, such as "18 passed, 2 failed, 1 skipped".
func (r Result) String() string {
	return fmt.Sprintf("%d passed, %d failed, %d skipped", len(r.In(Passed)), len(r.In(Failed)), len(r.In(Skipped)))
}

// The kubelet's directories on Windows. Staging paths have no drive and target paths have
// a lower-case one, as kubelets pass them.
const (
	staging = `\var\lib\kubelet\plugins\kubernetes.io\csi\lab\%s\globalmount`
	pod     = `c:\var\lib\kubelet\pods\%s\volumes\kubernetes.io~csi\pv`
	odd     = `c:\var\lib\kubelet\some\path`
)

// parts matches the specs that need no controller of the driver.
const parts = `(Identity|Node) Service`

// ran is whether csi-sanity ran in this process.
type ran struct {
	sync.Mutex
	yes bool
}

var once ran

// Run runs csi-sanity. Ginkgo, on which csi-sanity is built, runs once in a process, so a second
// call returns an error. Ginkgo's report goes to log.
func Run(log io.Writer, s Suite) (result Result, err error) {
	if err := once.take(); err != nil {
		return result, err
	}
	r := newRun(&s)
	ginkgo.BeforeEach(func() { r.answered("", nil) })
	sanity.GinkgoTest(&r.config)
	ran := regexp.MustCompile("^" + parts)
	ginkgo.ReportAfterSuite("results", func(report ginkgo.Report) {
		for _, spec := range report.SpecReports {
			if spec.LeafNodeType == types.NodeTypeIt && ran.MatchString(spec.FullText()) {
				result.Specs = append(result.Specs, r.result(spec))
			}
		}
	})
	formatter.ColorableStdOut = log
	gomega.RegisterFailHandler(func(message string, skip ...int) {
		r.failing(ginkgo.CurrentSpecReport())
		ginkgo.Fail(message, append(skip, 0)[0]+1)
	})
	suite, reporter := ginkgo.GinkgoConfiguration()
	suite.FocusStrings = []string{"^csi-sanity " + parts}
	reporter.Succinct, reporter.NoColor = true, true
	ginkgo.RunSpecs(ignore{}, "csi-sanity", suite, reporter)
	result.Left = r.left
	if len(result.Specs) == 0 {
		return result, errors.New("csi-sanity ran no spec")
	}
	return result, nil
}

func (o *ran) take() error {
	o.Lock()
	defer o.Unlock()
	if o.yes {
		return errors.New("csi-sanity ran in this process already")
	}
	o.yes = true
	return nil
}

// ignore gets from Ginkgo that a spec failed, which the results have.
type ignore struct{}

// Fail implements ginkgo.GinkgoTestingT.
func (ignore) Fail() {}

// run is a suite that runs.
type run struct {
	suite  *Suite
	config sanity.TestConfig
	dirs   int // made so far
	left   []string

	mu      sync.Mutex
	last    string            // answer of the driver
	answers map[string]string // of specs that failed, by their full text
}

// failing keeps the answer to which a spec fails.
func (r *run) failing(spec types.SpecReport) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if _, failed := r.answers[spec.FullText()]; !failed {
		r.answers[spec.FullText()] = r.last
	}
}

func (r *run) answered(call string, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.last = call
	if s := status.Convert(err); call != "" {
		r.last += ": " + strings.TrimSuffix(s.Code().String()+": "+s.Message(), ": ")
	}
}

// result is the result of a spec.
func (r *run) result(spec types.SpecReport) Spec {
	out := Spec{Name: spec.FullText(), State: Failed, Message: spec.Failure.Message, Answer: r.answers[spec.FullText()]}
	if out.Answer == "" { // the test itself failed, before its first call
		out.Answer = spec.Failure.Message
	}
	switch {
	case spec.State.Is(types.SpecStatePassed):
		out.State = Passed
	case spec.State.Is(types.SpecStateSkipped | types.SpecStatePending):
		out.State = Skipped
	}
	return out
}

func newRun(s *Suite) *run {
	r := &run{suite: s, config: sanity.NewTestConfig(), answers: map[string]string{}}
	c := &r.config
	c.Address, c.ControllerAddress = target(s.Endpoint), target(s.Controller)
	c.DialOptions = []grpc.DialOption{
		grpc.WithTransportCredentials(insecure.NewCredentials()), grpc.WithAuthority("localhost"),
		grpc.WithContextDialer(dialSlowly), grpc.WithUnaryInterceptor(r.intercept), s.Class.Dial(),
	}
	c.ControllerDialOptions = []grpc.DialOption{
		grpc.WithTransportCredentials(insecure.NewCredentials()), grpc.WithAuthority("localhost"), grpc.WithContextDialer(dialSlowly), s.Class.Dial(),
	}
	c.IdempotentCount = 3
	if s.VolumeID != nil {
		c.IDGen = &ids{c.IDGen, s.VolumeID}
	}
	c.StagingPath, c.TargetPath = staging, pod
	c.CreateStagingDir, c.CreateTargetDir = r.mkdir, r.mkdir
	c.RemoveStagingPath, c.RemoveTargetPath = r.rmdir, r.rmdir
	c.CheckPath = r.check
	return r
}

// target is a target for gRPC that [dialSlowly] gets as it is.
func target(address string) string {
	if address == "" {
		return ""
	}
	return "passthrough:///" + address
}

// dialSlowly connects after a delay. csi-sanity waits for a change of the connection's
// state, and never sees one if the connection is ready before it looks.
func dialSlowly(ctx context.Context, address string) (net.Conn, error) {
	time.Sleep(200 * time.Millisecond)
	network := "tcp"
	if socket, ok := strings.CutPrefix(address, "unix:"); ok {
		network, address = "unix", strings.TrimPrefix(socket, "//")
	}
	var d net.Dialer
	return d.DialContext(ctx, network, address)
}

// ids makes IDs of volumes that do not exist.
type ids struct {
	sanity.IDGenerator
	volumeID func(string) string
}

// GenerateUniqueValidVolumeID implements sanity.IDGenerator.
func (i *ids) GenerateUniqueValidVolumeID() string {
	return i.volumeID(i.IDGenerator.GenerateUniqueValidVolumeID())
}

// intercept turns csi-sanity's paths into Windows'. To the driver, whose controller is
// elsewhere, it adds that there is one, since csi-sanity asks only the driver.
func (r *run) intercept(ctx context.Context, method string, req, reply any, conn *grpc.ClientConn, invoke grpc.UnaryInvoker, opts ...grpc.CallOption) error {
	switch in := req.(type) {
	case *csi.NodePublishVolumeRequest:
		in.TargetPath = windowsPath(in.TargetPath)
	case *csi.NodeUnpublishVolumeRequest:
		in.TargetPath = windowsPath(in.TargetPath)
	case *csi.NodeGetVolumeStatsRequest:
		in.VolumePath = windowsPath(in.VolumePath)
	case *csi.NodeExpandVolumeRequest:
		in.VolumePath = windowsPath(in.VolumePath)
	}
	err := invoke(ctx, method, req, reply, conn, opts...)
	r.answered(path.Base(method), err)
	if out, ok := reply.(*csi.GetPluginCapabilitiesResponse); ok && err == nil {
		out.Capabilities = append(out.Capabilities, &csi.PluginCapability{Type: &csi.PluginCapability_Service_{
			Service: &csi.PluginCapability_Service{Type: csi.PluginCapability_Service_CONTROLLER_SERVICE},
		}})
	}
	return err
}

func windowsPath(name string) string {
	if name == "some/path" {
		return odd
	}
	return strings.ReplaceAll(name, "/", `\`)
}

// mkdir makes a directory that no other spec has. The kubelet makes both directories
// before it calls the driver.
func (r *run) mkdir(pattern string) (string, error) {
	r.dirs++
	path := fmt.Sprintf(pattern, fmt.Sprint(r.dirs))
	_, err := r.suite.Files.Mkdir(context.Background(), &filesystem.MkdirRequest{Path: path})
	return path, err
}

// rmdir removes a directory that has to be empty by now.
func (r *run) rmdir(path string) error {
	there, err := r.exists(path)
	if err != nil || !there {
		return err
	}
	if _, err := r.suite.Files.Rmdir(context.Background(), &filesystem.RmdirRequest{Path: path}); err != nil {
		r.left = append(r.left, fmt.Sprintf("%s: %v", path, err))
	}
	return nil
}

func (r *run) exists(path string) (bool, error) {
	out, err := r.suite.Files.PathExists(context.Background(), &filesystem.PathExistsRequest{Path: windowsPath(path)})
	if err != nil {
		return false, err
	}
	return out.Exists, nil
}

func (r *run) check(path string) (sanity.PathKind, error) {
	switch there, err := r.exists(path); {
	case err != nil:
		return "", err
	case !there:
		return sanity.PathIsNotFound, nil
	}
	return sanity.PathIsOther, nil
}
