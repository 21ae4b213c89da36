// Package programs builds the programs of a cluster, and runs them.
package programs

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"
)

// Set is where the programs of a cluster are.
type Set struct {
	Kubernetes  string // etcd, kube-apiserver, kube-controller-manager, kube-scheduler, kubelet, kubectl
	Sim         string // csi-proxy-sim, the build New
	OldSim      string // the build Old
	Driver      string // the example driver
	Provisioner string // csi-provisioner
	Attacher    string // csi-attacher
	Resizer     string // csi-resizer
}

// The builds of csi-proxy-sim. Each says its name as its version. The code is the same.
const (
	New = "new"
	Old = "old"
)

// Builds returns the builds of csi-proxy-sim.
func Builds() []string { return []string{Old, New} }

// program is one to be built.
type program struct {
	path       *string
	module     string // its directory in the project
	pkg        string
	variant    string // of several builds, or empty
	kubernetes bool   // is of Kubernetes, and says its version
}

// Build builds all programs from the project in a directory, and says on log how long each
// took. Programs that are current are kept: they are in the user's directory for caches.
func Build(ctx context.Context, source string, log io.Writer) (*Set, error) {
	s := &Set{}
	const tools = "github.com/kubernetes-csi/external-"
	for _, p := range []program{
		{path: &s.Kubernetes, module: "test/cluster", pkg: "./kubernetes", kubernetes: true},
		{path: &s.Sim, module: "cmd", pkg: "./csi-proxy-sim", variant: New},
		{path: &s.OldSim, module: "cmd", pkg: "./csi-proxy-sim", variant: Old},
		{path: &s.Driver, module: "examples/csi-driver", pkg: "."},
		{path: &s.Provisioner, module: "test/cluster/sidecars", pkg: tools + "provisioner/v6/cmd/csi-provisioner"},
		{path: &s.Attacher, module: "test/cluster/sidecars", pkg: tools + "attacher/v4/cmd/csi-attacher"},
		{path: &s.Resizer, module: "test/cluster/sidecars", pkg: tools + "resizer/v2/cmd/csi-resizer"},
	} {
		if err := p.build(ctx, source, log); err != nil {
			return nil, err
		}
	}
	return s, nil
}

// Kubernetes builds only the program kubernetes, and returns its path.
func Kubernetes(ctx context.Context, source string, log io.Writer) (string, error) {
	var path string
	p := program{path: &path, module: "test/cluster", pkg: "./kubernetes", kubernetes: true}
	return path, p.build(ctx, source, log)
}

func (p program) build(ctx context.Context, source string, log io.Writer) error {
	cache, err := os.UserCacheDir()
	if err != nil {
		return err
	}
	name := filepath.Base(p.pkg)
	if p.pkg == "." {
		name = filepath.Base(p.module)
	}
	flags := "-s -w"
	if p.variant != "" {
		name += "-" + p.variant
		flags += " -X main.version=" + p.variant
	}
	*p.path = filepath.Join(cache, "csi-proxy", "cluster", name)
	dir := filepath.Join(source, filepath.FromSlash(p.module))
	if p.kubernetes {
		of, err := kubernetesVersion(ctx, dir)
		if err != nil {
			return err
		}
		flags += of
	}
	started := time.Now()
	c := exec.CommandContext(ctx, "go", "build", "-trimpath", "-ldflags="+flags, "-o", *p.path, p.pkg)
	c.Dir, c.Env = dir, append(os.Environ(), "CGO_ENABLED=0", "GOWORK=off", "GOOS=", "GOARCH=")
	if out, err := c.CombinedOutput(); err != nil {
		return fmt.Errorf("build %s: %w\n%s", name, err, out)
	}
	_, err = fmt.Fprintf(log, "%s: built in %.0f s, %.0f s of processor time\n", name, time.Since(started).Seconds(), (c.ProcessState.UserTime() + c.ProcessState.SystemTime()).Seconds())
	return err
}

// kubernetesVersion returns the linker's flags that give Kubernetes its version.
func kubernetesVersion(ctx context.Context, dir string) (string, error) {
	c := exec.CommandContext(ctx, "go", "list", "-m", "-f", "{{.Version}}", "k8s.io/kubernetes")
	c.Dir, c.Env = dir, append(os.Environ(), "GOWORK=off")
	out, err := c.Output()
	if err != nil {
		return "", fmt.Errorf("%v: %w", c.Args, err)
	}
	version := strings.TrimSpace(string(out))
	parts := strings.Split(strings.TrimPrefix(version, "v"), ".")
	if len(parts) < 3 {
		return "", fmt.Errorf("k8s.io/kubernetes has version %q", version)
	}
	const to = " -X k8s.io/component-base/version."
	return to + "gitVersion=" + version + to + "gitMajor=" + parts[0] + to + "gitMinor=" + parts[1], nil
}

// Source returns the directory of the project that dir is in.
func Source(dir string) (string, error) {
	dir, err := filepath.Abs(dir)
	if err != nil {
		return "", err
	}
	for at := dir; ; at = filepath.Dir(at) {
		if _, err := os.Stat(filepath.Join(at, "test", "cluster", "go.mod")); err == nil {
			return at, nil
		}
		if at == filepath.Dir(at) {
			return "", errors.New(dir + " is not in a checkout of CSI Proxy, from which the programs are built")
		}
	}
}
