package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"time"
)

// modules are the modules of the workspace.
var modules = [...]string{".", "client", "cmd", "hack", "test"}

// exampleDir is a module outside of the workspace: an example of a driver. By its name it can
// import only what is public.
const exampleDir = "examples/csi-driver"

// mountDir is a module outside of the workspace: the adapter for k8s.io/mount-utils, which drivers
// require.
const mountDir = "mountutils"

// nextCSI is a go.mod of the example driver that requires the next CSI specification.
const nextCSI = "csi-1.13.mod"

// labDir is a module outside of the workspace: Windows drivers under Wine, on a simulated
// node.
const labDir = "lab"

// releaseDir is a module outside of the workspace, which makes the files of a release, and pins the
// linters.
const releaseDir = "hack/release"

// clusterDir is a module outside of the workspace: Kubernetes over simulated nodes, and what
// judges deploy/: Helm, and the API server, by its code and by the real one. Below it is a module
// that only requires the sidecars of CSI.
const (
	clusterDir  = "test/cluster"
	deployTests = "./deploy" // its package that needs no program of Kubernetes
	sidecarsDir = "test/cluster/sidecars"
)

// publishedDirs are the modules outside of the workspace that link a published client, v1.0.1
// and v1.3.0.
var publishedDirs = []string{"test/published", "test/published/v1.3.0"}

// programTags are the build tags of the programs, as in the Makefile.
const programTags = "-tags=grpcnotrace,nethttpomithttp2"

// command returns a command whose output goes to the reader. Everything is compiled as the
// programs are, so that nothing is compiled twice: without a C compiler, unless env has
// CGO_ENABLED, with -trimpath, and in the workspace with the programs' build tags.
func (r *report) command(ctx context.Context, dir string, env []string, name string, args ...string) command {
	c := exec.CommandContext(ctx, name, args...)
	c.Dir = dir
	flags := strings.TrimSpace(os.Getenv("GOFLAGS") + " -trimpath")
	if !slices.Contains(env, "GOWORK=off") {
		flags += " " + programTags
	}
	c.Env = append(append(os.Environ(), "CGO_ENABLED=0", "GOFLAGS="+flags), env...)
	c.Stdout, c.Stderr = r.out, r.out
	return command{c, r}
}

// A command counts the CPU time that it takes, with the processes that it starts and waits for.
type command struct {
	*exec.Cmd
	r *report
}

func (c command) Run() error {
	if err := c.Start(); err != nil {
		return err
	}
	return c.Wait()
}

func (c command) Wait() error {
	err := c.Cmd.Wait()
	c.r.mu.Lock()
	defer c.r.mu.Unlock()
	c.r.used += c.ProcessState.UserTime() + c.ProcessState.SystemTime()
	return err
}

// installPackages installs the Debian packages of judges and compilers, each known by a
// program in it.
func installPackages(ctx context.Context, r *report) error {
	var missing []string
	for _, p := range [...]struct{ program, pkg, why string }{
		{"sgdisk", "gdisk", "judges partition tables"},
		{"mkfs.ext4", "e2fsprogs", "makes foreign file systems"},
		{"mkfs.xfs", "xfsprogs", "the same"},
		{"mkfs.btrfs", "btrfs-progs", "the same"},
		{"mkfs.f2fs", "f2fs-tools", "the same"},
		{"mkfs.fat", "dosfstools", "the same"},
		{"mkfs.exfat", "exfatprogs", "the same"},
		{"mkfs.ntfs", "ntfs-3g", "the same"},
		{"mksquashfs", "squashfs-tools", "the same"},
		{"mkfs.nilfs2", "nilfs-tools", "the same"},
		{"mkfs.reiserfs", "reiserfsprogs", "the same"},
		{"mkfs.jfs", "jfsutils", "the same"},
		{"mkfs.gfs2", "gfs2-utils", "the same"},
		{"mkfs.ocfs2", "ocfs2-tools", "the same"},
		{"mkfs.erofs", "erofs-utils", "the same"},
		{"mkudffs", "udftools", "the same"},
		{"make-bcache", "bcache-tools", "the same"},
		{"pvcreate", "lvm2", "the same"},
		{"qemu-img", "qemu-utils", "makes images of virtual disks"},
		{"cryptsetup", "cryptsetup-bin", "makes encrypted volumes"},
		{"sfdisk", "fdisk", "makes partition tables"},
		{"blkid", "util-linux", "judges boot sectors"},
		{"x86_64-w64-mingw32-gcc", "gcc-mingw-w64-x86-64", "judges structure layouts by Windows' headers"},
		{"gcc", "gcc", "the race detector needs cgo"},
		{"minisign", "minisign", "signs releases, and judges their signature"},
		{"/usr/lib/python3/dist-packages/samba/__init__.py", "python3-samba", "judges access control lists"},
	} {
		if have(p.program) {
			r.logf("%-24s found", p.program)
			r.pass()
			continue
		}
		r.logf("%-24s missing: installing %s (%s)", p.program, p.pkg, p.why)
		missing = append(missing, p.pkg)
	}
	if len(missing) == 0 {
		return nil
	}
	if os.Geteuid() != 0 || !have("apt-get") {
		r.skip(strings.Join(missing, " "), "installing them needs root on Debian; each test that needs one is skipped")
		return nil
	}
	env := []string{"DEBIAN_FRONTEND=noninteractive"}
	retries := []string{"-qq", "-o", "Acquire::Retries=3", "-o", "DPkg::Lock::Timeout=300"}
	if err := r.command(ctx, ".", env, "apt-get", append(retries, "update")...).Run(); err != nil {
		return fmt.Errorf("apt-get update: %w", err)
	}
	args := append([]string{"install", "-y", "--no-install-recommends"}, missing...)
	c := r.command(ctx, ".", env, "apt-get", append(retries, args...)...)
	var log bytes.Buffer
	c.Stdout, c.Stderr = &log, &log
	if err := c.Run(); err != nil {
		r.logf("%s", log.String())
		return fmt.Errorf("apt-get install %s: %w", strings.Join(missing, " "), err)
	}
	r.passed += len(missing)
	return nil
}

func have(program string) bool {
	if filepath.IsAbs(program) {
		_, err := os.Stat(program)
		return err == nil
	}
	for _, dir := range append(filepath.SplitList(os.Getenv("PATH")), "/usr/sbin", "/sbin") {
		if info, err := os.Stat(filepath.Join(dir, program)); err == nil && !info.IsDir() {
			return true
		}
	}
	return false
}

func toolPath(name string) string {
	p, err := filepath.Abs(filepath.Join("bin", "tools", name))
	if err != nil {
		return name
	}
	return p
}

func buildTools(ctx context.Context, r *report) error {
	dir, err := filepath.Abs(filepath.Join("bin", "tools"))
	if err != nil {
		return err
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	for _, t := range [...]string{"honnef.co/go/tools/cmd/staticcheck", "golang.org/x/tools/cmd/deadcode", "golang.org/x/vuln/cmd/govulncheck", "github.com/rhysd/actionlint/cmd/actionlint"} {
		if err := r.command(ctx, filepath.FromSlash(releaseDir), []string{"GOWORK=off"}, "go", "build", "-o", dir, t).Run(); err != nil {
			return fmt.Errorf("build %s: %w", t, err)
		}
		r.pass()
	}
	return nil
}

// checkFormat runs gofmt over the Go files that git knows or would add.
func checkFormat(ctx context.Context, r *report) error {
	out, err := exec.CommandContext(ctx, "git", "ls-files", "-co", "--exclude-standard", "*.go").Output()
	if err != nil {
		return fmt.Errorf("git ls-files: %w", err)
	}
	files := strings.Fields(string(out))
	if len(files) == 0 {
		return errors.New("git lists no Go file")
	}
	var present []string
	for _, f := range files {
		if _, err := os.Stat(f); err == nil {
			present = append(present, f)
		}
	}
	bad, err := exec.CommandContext(ctx, "gofmt", append([]string{"-l"}, present...)...).CombinedOutput()
	if err != nil {
		return fmt.Errorf("gofmt: %w\n%s", err, bad)
	}
	if len(bad) > 0 {
		return fmt.Errorf("gofmt -w would change:\n%s", bad)
	}
	r.pass()
	return nil
}

type platform struct{ os, arch string }

func (p platform) env() []string {
	return []string{"GOOS=" + p.os, "GOARCH=" + p.arch, "CGO_ENABLED=0"}
}

// vetWindows runs go vet for Windows on what differs there. For Linux, go test does it (vetted).
// The code does not depend on the architecture; the stage build compiles it for arm64.
func vetWindows(ctx context.Context, r *report) error {
	var errs []error
	vet := func(module string, packages []string, more ...string) {
		differ, err := differOnWindows(ctx, module, packages, more...)
		if err == nil && len(differ) > 0 {
			err = r.command(ctx, module, append(platform{"windows", "amd64"}.env(), more...), "go", append([]string{"vet"}, differ...)...).Run()
		}
		if err != nil {
			errs = append(errs, fmt.Errorf("vet of module %s for windows: %w", module, err))
			return
		}
		r.pass()
	}
	vet(".", allOf(modules[:]))
	for _, m := range [...]string{mountDir, exampleDir, labDir} { // outside of the workspace
		vet(m, []string{"./..."}, "GOWORK=off")
	}
	return errors.Join(errs...)
}

// differOnWindows returns the packages whose files for Windows are others than for Linux, or that
// import syscall, which differs itself. What a check finds in the others it finds for Linux.
func differOnWindows(ctx context.Context, dir string, packages []string, more ...string) ([]string, error) {
	const format = "{{.ImportPath}}\t{{.GoFiles}} {{.TestGoFiles}} {{.XTestGoFiles}}\t{{.Imports}} {{.TestImports}} {{.XTestImports}}"
	var onLinux, onWindows map[string]string
	for system, files := range map[string]*map[string]string{"linux": &onLinux, "windows": &onWindows} {
		c := exec.CommandContext(ctx, "go", append([]string{"list", "-f", format}, packages...)...)
		c.Dir, c.Env = dir, append(append(os.Environ(), platform{system, "amd64"}.env()...), more...)
		out, err := c.Output()
		if err != nil {
			return nil, fmt.Errorf("go list for %s: %w", system, err)
		}
		*files = map[string]string{}
		for line := range strings.Lines(string(out)) {
			name, rest, _ := strings.Cut(strings.TrimSpace(line), "\t")
			(*files)[name] = rest
		}
	}
	var differ []string
	for name, files := range onWindows {
		_, imports, _ := strings.Cut(files, "\t")
		if files != onLinux[name] || slices.Contains(strings.FieldsFunc(imports, func(r rune) bool { return strings.ContainsRune("[ ]", r) }), "syscall") {
			differ = append(differ, name)
		}
	}
	slices.Sort(differ)
	return differ, nil
}

// vetted makes go test run all of go vet's checks on the packages that it tests, and those
// without tests; otherwise it runs a few.
const vetted = "-vet=all"

// vettedBefore is for packages that another stage has vetted, which go test would do once more
// for each platform and mode.
const vettedBefore = "-vet=off"

// staticcheck checks all packages for Linux, and for Windows those that differ there.
func staticcheck(ctx context.Context, r *report) error {
	differ, err := differOnWindows(ctx, ".", allOf(modules[:]))
	errs := []error{err}
	for system, packages := range map[string][]string{"linux": allOf(modules[:]), "windows": differ} {
		if err := r.command(ctx, ".", []string{"GOOS=" + system, "CGO_ENABLED=0"}, toolPath("staticcheck"), packages...).Run(); err != nil {
			errs = append(errs, fmt.Errorf("staticcheck for %s: %w", system, err))
			continue
		}
		r.pass()
	}
	return errors.Join(errs...)
}

// lintWorkflows checks the workflows of GitHub.
func lintWorkflows(ctx context.Context, r *report) error {
	files, err := filepath.Glob(filepath.Join(".github", "workflows", "*.yml"))
	if err != nil {
		return err
	}
	if len(files) == 0 {
		return errors.New("no workflow found")
	}
	if err := r.command(ctx, ".", nil, toolPath("actionlint"), files...).Run(); err != nil {
		return fmt.Errorf("actionlint: %w", err)
	}
	r.pass()
	return nil
}

// ownStages matches tests that the stages kill and flood run for longer.
const ownStages = "^(TestKillUnderLoad|TestKillLosesNoLine|TestFlood|TestFloodOfOnePipeDoesNotBlockOthers)$"

// busy are flags of go test for twice as many packages, and parallel tests of a package, at once
// as there are CPUs, because some tests wait.
func busy(flags ...string) []string {
	n := 2 * runtime.NumCPU()
	return append([]string{fmt.Sprintf("-p=%d", n), fmt.Sprintf("-parallel=%d", n)}, flags...)
}

// builtPrograms is an environment in which tests take the programs for this machine that the stage
// build has made, instead of building them again: the daemon over a simulated node, and those beside
// it.
func builtPrograms() []string {
	sim, err := filepath.Abs(filepath.Join("bin", "csi-proxy-sim"))
	if err != nil {
		return nil
	}
	return []string{"CSI_PROXY_SIM_BINARY=" + sim}
}

// roomy is the environment of tests that make many simulated nodes, without which a fifth of their
// CPU time is the garbage collector's. It is not for those that measure the memory of a program.
var roomy = []string{"GOGC=200"}

// unitTests runs the tests of every module. One go test has all of them, so that no CPU waits
// for the slowest package of a module.
func unitTests(ctx context.Context, r *report) error {
	return r.goTest(ctx, ".", builtPrograms(), append(busy(vetted, "-skip", ownStages), allOf(modules[:])...)...)
}

// quickTests runs the tests of every module except slow ones. First those whose results may
// be cached.
func quickTests(ctx context.Context, r *report) error {
	others := slices.DeleteFunc(slices.Clone(modules[:]), func(m string) bool { return slices.Contains(ownFiles, m) })
	return errors.Join(
		r.goTest(ctx, ".", roomy, append(busy(quick, vetted), allOf(ownFiles)...)...),
		r.goTest(ctx, ".", roomy, append(busy(quick, vetted), allOf(others)...)...))
}

// moduleAlone vets and tests packages of a module outside of the workspace. args are flags of go test,
// and then the packages.
func (r *report) moduleAlone(ctx context.Context, dir string, args ...string) error {
	return r.goTest(ctx, dir, append(builtPrograms(), "GOWORK=off"), append([]string{vetted}, args...)...)
}

// deployFiles vets and tests what is in deploy/. Nothing there is for Windows.
func deployFiles(ctx context.Context, r *report) error {
	return errors.Join(r.moduleAlone(ctx, clusterDir, deployTests), r.tidy(ctx, clusterDir, "go.mod"))
}

// releaseModule vets and tests what makes a release, which runs on Linux only.
func releaseModule(ctx context.Context, r *report) error {
	return r.moduleAlone(ctx, releaseDir, "./...")
}

// realServer vets and tests the package that builds and starts an API server.
func realServer(ctx context.Context, r *report) error {
	if err := r.moduleAlone(ctx, clusterDir, "-timeout=40m", "./apiserver"); err != nil {
		return err
	}
	script, reason, err := installWine(ctx, r)
	if err == nil && reason == "" {
		err = r.goTest(ctx, clusterDir, append(platform{"windows", "amd64"}.env(), "GOWORK=off"), "-exec", "'"+script+"' exec", "./joined")
	} else if err == nil {
		r.skip("the paths that the kubelet joins, under Wine", reason)
	}
	return err
}

// realCluster vets and tests the packages that run Kubernetes over simulated nodes.
func realCluster(ctx context.Context, r *report) error {
	err := r.moduleAlone(ctx, clusterDir, "-timeout=90m", "-p=1", ".", "./csi-proxy-cluster", "./kubernetes", "./programs", "./translation")
	if err != nil {
		return err
	}
	return r.tidy(ctx, sidecarsDir, "go.mod")
}

// exampleModule tests the adapter for drivers and the example driver, and runs csi-sanity once more for
// each kind of volume, with the CSI specification that follows the one that the driver requires.
func exampleModule(ctx context.Context, r *report) error {
	return together(
		func() error { return r.moduleAlone(ctx, mountDir, "./...") },
		func() error { return r.moduleAlone(ctx, exampleDir, "./...") },
		func() error {
			return r.goTest(ctx, exampleDir, []string{"GOWORK=off"}, vettedBefore, "-modfile="+nextCSI, quick, "-run", "^TestSanity$", "./driver")
		})
}

// lifecycles makes so many volumes with the example driver, while calls of Windows fail
// and CSI Proxy is restarted, and as many while its process is killed.
func lifecycles(volumes int) func(context.Context, *report) error {
	return func(ctx context.Context, r *report) error {
		env := []string{"GOWORK=off", fmt.Sprintf("CSI_DRIVER_LIFECYCLES=%d", volumes)}
		return r.goTest(ctx, exampleDir, env, vettedBefore, "-run", "^Test(Killed)?Lifecycles$", "./driver")
	}
}

// largest is the most bytes that the programs for nodes may have.
// csi-proxy-sim.exe is not installed on nodes, and may have more.
const (
	largest       = 15_750_000
	largestSim    = 17_000_000
	largestVerify = 20_000_000 // it links the daemon, the simulated node and package testing
)

func buildAll(ctx context.Context, r *report) error {
	// As installers of nodes build it: the programs for this machine are there as well.
	if err := r.command(ctx, ".", []string{"GOOS=windows"}, "make", "build").Run(); err != nil {
		return err
	}
	copied, err := os.ReadFile(filepath.Join("bin", "csi-proxy.exe"))
	if err != nil {
		return err
	}
	stamped, err := os.ReadFile(filepath.Join("bin", "windows-amd64", "csi-proxy.exe"))
	if err != nil || !bytes.Equal(copied, stamped) {
		return fmt.Errorf("bin/csi-proxy.exe is not the one in bin/windows-amd64: %v", err)
	}
	r.pass()
	for _, dir := range [...]string{"", "windows-amd64", "windows-arm64"} {
		for name, limit := range map[string]int64{"csi-proxy": largest, "csi-proxy-sim": largestSim, "csi-proxyctl": largest, "csi-proxy-verify": largestVerify} {
			if dir != "" {
				name += ".exe"
			}
			path := filepath.Join("bin", dir, name)
			info, err := os.Stat(path)
			if err != nil {
				return err
			}
			r.logf("%6.1f MB  %s", float64(info.Size())/1e6, path)
			if dir != "" && info.Size() > limit {
				return fmt.Errorf("%s has %d bytes, want at most %d; go tool nm -size -sort=size of a build without -s shows what takes the room", path, info.Size(), limit)
			}
			r.pass()
		}
	}
	return nil
}

// publishedClients runs the modules of the published clients outside of the
// workspace, so that they link these and not ours.
func publishedClients(ctx context.Context, r *report) error {
	var all []func() error
	for _, d := range publishedDirs {
		all = append(all, func() error {
			return r.goTest(ctx, d, append(builtPrograms(), "GOWORK=off"), "./...")
		})
	}
	return together(all...)
}

// floodDaemon floods the binary that was built.
func floodDaemon(ctx context.Context, r *report) error {
	return r.goTest(ctx, "cmd", append(builtPrograms(), "CSI_PROXY_FLOOD=10s"), vettedBefore, "-run", "Flood", "./internal/daemon")
}

// floodUnderRace floods a daemon in the test's own process, under the race detector.
func floodUnderRace(ctx context.Context, r *report) error {
	if !have("gcc") {
		r.skip("all", "the race detector needs gcc")
		return nil
	}
	return r.goTest(ctx, "cmd", []string{"CGO_ENABLED=1", "CSI_PROXY_FLOOD=10m"}, vettedBefore, "-race", "-run", "Flood", "./internal/daemon")
}

// killTests kills the daemon that was built so many times. One takes a fifth of a second. Then it
// kills a hundred that log, which takes seconds.
func killTests(times int) func(context.Context, *report) error {
	limit := hung + time.Duration(times)*2*time.Second
	return func(ctx context.Context, r *report) error {
		env := append(builtPrograms(), fmt.Sprintf("CSI_PROXY_KILLS=%d", times))
		return errors.Join(
			r.goTest(ctx, "test", env, vettedBefore, "-timeout="+limit.String(), "-run", "^TestKillUnderLoad$", "./operations"),
			r.goTest(ctx, "cmd", nil, vettedBefore, "-run", "^TestKillLosesNoLine$", "./internal/daemon", "-kills=100"))
	}
}

func allWorlds(ctx context.Context, r *report) error {
	return r.goTest(ctx, "test", []string{"CSI_PROXY_ALL_WORLDS=1"}, "-timeout=6h", "./worlds")
}

func everyFault(ctx context.Context, r *report) error {
	return r.goTest(ctx, "cmd", []string{"CSI_PROXY_EVERY_CELL=1"}, "-timeout=1h", "-v", "-run", "^TestMatrix$", "./csi-proxyctl")
}

func allImages(ctx context.Context, r *report) error {
	return r.goTest(ctx, "test", []string{"CSI_PROXY_ALL_IMAGES=1"}, "-timeout=2h", "-v", "./images")
}

// hunts makes so many runs of the seeded simulation, and repeats one of a hundred. One takes a
// tenth of a second. It also shrinks planted faults in more runs than make test.
func hunts(runs int) func(context.Context, *report) error {
	return func(ctx context.Context, r *report) error {
		flags := []string{"-timeout=12h", "-run=^(TestHunt|TestSameChoicesSameTrace|TestPlanted)$", "./hunt", "-hunt.planted=400", fmt.Sprintf("-hunt.runs=%d", runs), fmt.Sprintf("-hunt.replays=%d", runs/100), fmt.Sprintf("-hunt.seed=%d", time.Now().Unix()*1000)}
		return r.goTest(ctx, "test", nil, flags...)
	}
}

func demo(ctx context.Context, r *report) error {
	if err := r.command(ctx, ".", nil, "make", "demo").Run(); err != nil {
		return err
	}
	r.pass()
	return nil
}
