package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"time"
)

func lists() map[string][]phase {
	setup := stage{"setup", "install the Debian packages that tests use", installPackages}
	wine := stage{"wine", "the Windows build under Wine 10: pipes, the service, files, and disks by a driver; installs Wine once (root, Debian)", wineTests}
	build := stage{"build", "the programs for this machine and for Windows", buildAll}
	images := stage{"images", "download the disk images that Windows wrote, of Debian's source packages, once", getImages}
	vet := stage{"vet", "go vet of every module, for windows of what has files for it", vet}
	tidy := stage{"tidy", "go.mod files are tidy", checkTidy}
	format := stage{"format", "gofmt of every Go file", checkFormat}
	fuzz := stage{"fuzz", "every fuzz target for a second", fuzzAll(time.Second, false)}
	kill := stage{"kill", "the daemon is killed 100 times during calls, and what it has confirmed is still there; and 100 times while it logs", killTests(100)}
	api := stage{"api", "Go code of the API and of two other services, rows, pkg/remote and the overview of the API, from .proto files", goRun("run", "./cmd/csi-proxy-api-gen", "-root", ".")}
	return map[string][]phase{
		"check": {{{"unit", "tests of every module except slow ones; those of . and client only after a change", quickTests}, vet, tidy, format}},
		"test": {
			{setup, images, {"tools", "build hack/release/lint, deadcode, govulncheck and actionlint in the versions of hack/release", buildTools}, build},
			{
				wine,
				{"unit", "the tests of the workspace", unitTests},
				{"race", "the concurrent packages under the race detector", raceTests},
				{"lab", "Windows drivers under Wine, on a simulated node: the example's, and a public one, GCE PD, which it downloads once", labTests("./...")},
				{"example", "the adapter for mount-utils; csi-sanity and the life of volumes on the example driver, for each kind of volume", exampleModule},
				{"published", "the published client modules call our daemon, each in its own process", publishedClients},
				{"deploy", "the chart and manifests by Helm and strict decoding, the admission policies by the API server's code, alerts and dashboard by Prometheus'", deployFiles},
				fuzz, kill,
				{"flood", "10 seconds of callers, broken connections and failing Win32 calls on the daemon that was built", test("cmd", []string{"CSI_PROXY_FLOOD=10s"}, "-run=Flood", "./internal/daemon")},
				{"release", "a release of small programs, made twice: equal files, and an image that a registry's library reads", test(releaseDir, alone, "./...")},
				{"lint", "staticcheck and go vet of every package, for windows of what has files for it", lint},
				{"deadcode", "no function that no program reaches, for linux and windows", deadCode},
				{"govulncheck", "known vulnerabilities in what each module requires, if the database can be reached", govulncheck},
				tidy, format,
				{"workflows", "actionlint of the workflows of GitHub", lintWorkflows},
			},
			{{"demo", "make demo", func(ctx context.Context, r *report) error { return r.check(ctx, ".", nil, "make", "demo") }}},
		},
		"fuzz":  {{fuzz}},
		"kill":  {{setup}, {build}, {kill}},
		"wine":  {{setup}, {wine}},
		"gcepd": {{{"gcepd", "a public driver, GCE PD, under Wine: csi-sanity, volumes, beta versions; downloads it once", labTests("./gcepd")}}},
		"soak": {{setup}, {images}, {build},
			{{"kill", "the daemon is killed 5,000 times, half an hour", killTests(5000)}},
			{{"volumes", "10,000 volumes of the example driver, while Win32 calls fail and CSI Proxy is restarted, half an hour",
				test(exampleDir, []string{"CSI_DRIVER_LIFECYCLES=10000"}, "-run=^TestLifecycles$", "./driver")}},
			{{"worlds", "the contract, the kills at every call and the changes between calls, in each world of the simulated node, 4 hours",
				test("test", []string{"CSI_PROXY_ALL_WORLDS=1"}, "-timeout=6h", "./worlds")}},
			{{"faults", "what csi-proxyctl says while each Win32 call of each operation fails, hangs or lies, 10 minutes",
				test("cmd", []string{"CSI_PROXY_EVERY_CELL=1"}, "-timeout=1h", "-v", "-run=^TestMatrix$", "./csi-proxyctl")}},
			{{"content", "every disk image of test/images by PartitionDisk, FormatVolume and ResizeVolume, a thousand blank disks, each cleaning of used ones, 20 minutes",
				test("test", []string{"CSI_PROXY_ALL_IMAGES=1"}, "-timeout=2h", "-v", "./images")}},
			{{"hunt", "60,000 runs of the seeded simulation, with seeds that no run had before, one in a hundred twice, and planted faults, 3 hours",
				test("test", nil, "-timeout=12h", "-run=^(TestHunt|TestSameChoicesSameTrace|TestPlanted)$", "./hunt", "-hunt.planted=400", "-hunt.runs=60000", "-hunt.replays=600", fmt.Sprintf("-hunt.seed=%d", time.Now().Unix()*1000))}},
			{{"flood", "the flood for ten minutes, under the race detector", floodUnderRace}},
			{{"fuzz", "every fuzz target for five minutes, 5 hours", fuzzAll(5*time.Minute, true)}},
		},
		"apiserver": {{{"apiserver", "builds kube-apiserver and etcd once, installs the chart and the manifests, whose policies refuse and admit pods and volumes", realServer}}},
		"cluster":   {{{"cluster", "builds Kubernetes and the sidecars of CSI once: claims, growth, 200 pods that move, and what goes wrong in the field", realCluster}}},
		"generate": {
			{api},
			{{"win32", "calls of Windows, from their prototypes in internal/win32/native", goRun("generate", "./internal/win32/native")}},
			{{"manifests", "deploy/manifests, from the chart", test(clusterDir, inCluster, deployTests, "-run=^TestManifestsAreOfTheChart$", "-update")}},
		},
		"generate-api": {{api}},
	}
}

// modules are those of the workspace, except three with stages of their own.
var modules = []string{".", "client", "cmd", "hack", "test"}

const (
	mountDir   = "mountutils"          // the adapter for k8s.io/mount-utils, which drivers require
	exampleDir = "examples/csi-driver" // an example of a driver
	labDir     = "lab"                 // Windows drivers under Wine, on a simulated node
)

// workspace returns the patterns of all packages of these modules, or of some.
func workspace(some ...string) (patterns []string) {
	if some == nil {
		some = modules
	}
	for _, m := range some {
		patterns = append(patterns, "./"+filepath.Join(m, "..."))
	}
	return patterns
}

// Modules outside of the workspace.
const (
	nextCSI     = "csi-1.13.mod" // the go.mod of the example with the next CSI specification
	releaseDir  = "hack/release" // the files of a release, and the linters, pinned
	clusterDir  = "test/cluster" // Kubernetes over simulated nodes, and what judges deploy/
	deployTests = "./deploy"     // its package that needs no program of Kubernetes
	sidecarsDir = "test/cluster/sidecars"
)

// publishedDirs are the modules that link a published client, v1.0.1 and v1.3.0.
var publishedDirs = []string{"test/published", "test/published/v1.3.0"}

// alone is the environment for a module outside of the workspace.
var alone = []string{"GOWORK=off"}

// inCluster is that for the modules with programs of Kubernetes, which are built without the tags of
// ours.
var inCluster = []string{"GOWORK=off", "GOFLAGS=-trimpath -vet=off"}

func windows() []string { return []string{"GOOS=windows", "GOARCH=amd64"} }

func absolute(path string) string {
	if p, err := filepath.Abs(path); err == nil {
		return p
	}
	return path
}

// built is an environment in which tests take the programs for this machine that the stage
// build has made, instead of building them again: the daemon over a simulated node, and those beside
// it.
func built(env ...string) []string {
	return append([]string{"CSI_PROXY_SIM_BINARY=" + absolute("bin/csi-proxy-sim")}, env...)
}

// test returns a stage that is one go test.
func test(dir string, env []string, args ...string) func(context.Context, *report) error {
	return func(ctx context.Context, r *report) error { return r.goTest(ctx, dir, built(env...), args...) }
}

// goRun returns a stage that is one command of go.
func goRun(args ...string) func(context.Context, *report) error {
	return func(ctx context.Context, r *report) error { return r.check(ctx, ".", nil, "go", args...) }
}

// together calls functions at the same time: their tests wait, for limits and for processes.
func together(all ...func() error) error {
	errs := make([]error, len(all))
	var wg sync.WaitGroup
	for i, f := range all {
		wg.Go(func() { errs[i] = f() })
	}
	wg.Wait()
	return errors.Join(errs...)
}

// packages are the Debian packages of judges and compilers, each after a program in it by which it is
// known. Most make foreign file systems and partition tables, or judge ours.
const packages = `sgdisk:gdisk sfdisk:fdisk blkid:util-linux mkfs.ext4:e2fsprogs mkfs.xfs:xfsprogs mkfs.btrfs:btrfs-progs mkfs.f2fs:f2fs-tools
	mkfs.fat:dosfstools mkfs.exfat:exfatprogs mkfs.ntfs:ntfs-3g mksquashfs:squashfs-tools mkfs.nilfs2:nilfs-tools mkfs.reiserfs:reiserfsprogs
	mkfs.jfs:jfsutils mkfs.gfs2:gfs2-utils mkfs.ocfs2:ocfs2-tools mkfs.erofs:erofs-utils mkudffs:udftools make-bcache:bcache-tools pvcreate:lvm2
	qemu-img:qemu-utils cryptsetup:cryptsetup-bin
	gcc:gcc x86_64-w64-mingw32-gcc:gcc-mingw-w64-x86-64
	minisign:minisign /usr/lib/python3/dist-packages/samba/__init__.py:python3-samba`

func installPackages(ctx context.Context, r *report) error {
	var missing []string
	for p := range strings.FieldsSeq(packages) {
		program, pkg, _ := strings.Cut(p, ":")
		if have(program) {
			r.pass()
			continue
		}
		r.logf("%-24s missing: installing %s", program, pkg)
		missing = append(missing, pkg)
	}
	if len(missing) == 0 {
		return nil
	}
	if os.Geteuid() != 0 || !have("apt-get") {
		r.skip(strings.Join(missing, " "), "installing them needs root on Debian; each test that needs one is skipped")
		return nil
	}
	for _, args := range [][]string{{"update"}, append([]string{"install", "-y", "--no-install-recommends"}, missing...)} {
		c := r.command(ctx, ".", []string{"DEBIAN_FRONTEND=noninteractive"}, "apt-get", append([]string{"-qq", "-o", "Acquire::Retries=3", "-o", "DPkg::Lock::Timeout=300"}, args...)...)
		var log bytes.Buffer
		c.Stdout, c.Stderr = &log, &log
		if err := c.Run(); err != nil {
			return fmt.Errorf("apt-get %s: %w\n%s", strings.Join(args, " "), err, log.String())
		}
	}
	r.passed += len(missing)
	return nil
}

func have(program string) bool {
	for _, dir := range append(filepath.SplitList(os.Getenv("PATH")), "/usr/sbin", "/sbin") {
		if exists(filepath.Join(dir, program)) {
			return true
		}
	}
	return filepath.IsAbs(program) && exists(program)
}

// most is the most bytes that a program for Windows may have. The first two are for nodes.
// csi-proxy-verify links the daemon, the simulated node and package testing.
var most = map[string]int64{"csi-proxy": 15_750_000, "csi-proxyctl": 15_750_000, "csi-proxy-sim": 17_000_000, "csi-proxy-verify": 20_000_000}

func buildAll(ctx context.Context, r *report) error {
	// As installers of nodes build it: the programs for this machine are there as well.
	if err := r.check(ctx, ".", []string{"GOOS=windows"}, "make", "build"); err != nil {
		return err
	}
	copied, err := os.ReadFile("bin/csi-proxy.exe")
	if err != nil {
		return err
	}
	stamped, err := os.ReadFile("bin/windows-amd64/csi-proxy.exe")
	if err != nil || !bytes.Equal(copied, stamped) {
		return fmt.Errorf("bin/csi-proxy.exe is not the one in bin/windows-amd64: %v", err)
	}
	for name, limit := range most {
		for _, path := range []string{"bin/" + name, "bin/windows-amd64/" + name + ".exe", "bin/windows-arm64/" + name + ".exe"} {
			info, err := os.Stat(path)
			if err != nil {
				return err
			}
			r.logf("%6.1f MB  %s", float64(info.Size())/1e6, path)
			if strings.HasSuffix(path, ".exe") && info.Size() > limit {
				return fmt.Errorf("%s has %d bytes, want at most %d; go tool nm -size -sort=size of a build without -s shows what takes the room", path, info.Size(), limit)
			}
			r.pass()
		}
	}
	return nil
}

// busy returns flags of go test for twice as many packages, and parallel tests of a package, at once
// as there are CPUs, because some tests wait.
func busy(flags ...string) []string {
	n := 2 * runtime.NumCPU()
	return append([]string{fmt.Sprintf("-p=%d", n), fmt.Sprintf("-parallel=%d", n)}, flags...)
}

// unitTests runs the tests of the workspace, except those that the stages kill and flood run for longer.
// One go test has all of them, so that no CPU waits for the slowest package of a module.
func unitTests(ctx context.Context, r *report) error {
	return r.goTest(ctx, ".", built(), append(busy("-skip=^(TestKillUnderLoad|TestKillLosesNoLine|TestFlood|TestFloodOfOnePipeDoesNotBlockOthers)$"), workspace()...)...)
}

// quickTests runs the tests of the workspace except slow ones. The modules . and client read only
// their own files, so results of the last run count. Of other modules they may be wrong: go test does
// not notice a change of a file outside of the module.
//
// With GOGC, the garbage collector takes half of the CPU time. Tests that measure the memory of a
// program are slow ones.
func quickTests(ctx context.Context, r *report) error {
	env := []string{"GOGC=200"}
	return errors.Join(
		r.goTestOrCached(ctx, ".", env, append(busy("-short"), workspace(".", "client")...)...),
		r.goTest(ctx, ".", env, append(busy("-short"), workspace("cmd", "hack", "test")...)...))
}

// racing are the packages that start goroutines, or whose tests do, and racingTests are those in other
// packages. The race detector finds nothing in the rest.
const (
	racing = "./client/api ./client/negotiate ./client/pipe ./client/transport ./internal/admin/... ./internal/apiserver/limit ./internal/apiserver/pipes ./internal/apiserver/serve " +
		"./internal/faults ./internal/inflight ./internal/keymutex ./internal/node ./internal/win32/native/... " +
		"./pkg/conformance ./pkg/mounter ./pkg/remote ./pkg/simnode/control ./pkg/simnode/serve ./pkg/smb " +
		"./cmd/csi-proxyctl ./cmd/internal/daemon ./cmd/internal/logs ./cmd/internal/metrics ./cmd/internal/profiles ./cmd/internal/verify ./cmd/internal/winsvc"
	racingTests = "^Test(ObserveNested|ConcurrentCalls|FormatThroughWMIOutlivesTheProcess|RescanIsShared|ChangesOfOnePathAreSerialized|CallerDeadline|" +
		"DisconnectDoesNotWaitForCallsThatHang|DisconnectWaitsForWorkOnItsDisks|FaultFailsMethod|Node|FormatsWithDifferentAllocationUnits)$"
)

// raceTests runs the concurrent tests under the race detector. The contract runs through pipes only,
// which is the same code and more. The race detector takes memory and time for each of thousands of
// connections, and has little to look at in processes that do one thing after another: the rehearsals of
// csi-proxy-verify, and scripts of csi-proxyctl that make hundreds of calls. A new script runs with it.
// In TestHealthyNode, hundreds of connections in bubbles of testing/synctest, it crashes itself
// ("ThreadSanitizer: CHECK failed").
func raceTests(ctx context.Context, r *report) error {
	if !have("gcc") {
		r.skip("all", "the race detector needs gcc")
		return nil
	}
	const skip = "^Test(MemoryOfConnections|HostileClientsHarmOnlyThemselves|InProcess|ScriptsInBubble|HealthyNode|Rehearsal|QuestionsFindTheWorld|FirstContact)$" +
		"|^TestScripts$/^(bounds|bundle|call|clear|configured|doctor|hang|incidents|iscsi|smb|usage)$"
	env := []string{"CGO_ENABLED=1"}
	return errors.Join(
		r.goTest(ctx, ".", env, append(busy("-race", "-short", "-skip="+skip), strings.Fields(racing)...)...),
		r.goTest(ctx, ".", env, append(busy("-race", "-short", "-run="+racingTests), "./internal/win32", "./internal/win32/emulated", "./pkg/disk", "./pkg/filesystem", "./pkg/iscsi", "./pkg/simnode", "./pkg/volume")...))
}

// exampleModule tests the adapter for drivers and the example driver, and runs csi-sanity once more for
// each kind of volume, with the CSI specification that follows the one that the driver requires.
func exampleModule(ctx context.Context, r *report) error {
	return together(
		func() error { return r.goTest(ctx, mountDir, nil, "./...") },
		func() error { return r.goTest(ctx, exampleDir, built(), "./...") },
		func() error {
			return r.goTest(ctx, exampleDir, alone, "-modfile="+nextCSI, "-short", "-run=^TestSanity$", "./driver")
		})
}

// deployFiles tests what is in deploy/.
func deployFiles(ctx context.Context, r *report) error {
	return errors.Join(
		r.goTest(ctx, clusterDir, built(inCluster...), deployTests),
		r.check(ctx, clusterDir, inCluster, "go", "mod", "tidy", "-diff"))
}

// publishedClients runs the modules of the published clients outside of the
// workspace, so that they link these and not ours.
func publishedClients(ctx context.Context, r *report) error {
	return together(
		func() error { return r.goTest(ctx, publishedDirs[0], built(alone...), "./...") },
		func() error { return r.goTest(ctx, publishedDirs[1], built(alone...), "./...") })
}

// floodUnderRace floods a daemon in the test's own process, under the race detector.
func floodUnderRace(ctx context.Context, r *report) error {
	return r.goTest(ctx, "cmd", []string{"CGO_ENABLED=1", "CSI_PROXY_FLOOD=10m"}, "-race", "-run=Flood", "./internal/daemon")
}

// killTests kills the daemon that was built so many times. One takes a fifth of a second. Then it
// kills a hundred that log, which takes seconds.
func killTests(times int) func(context.Context, *report) error {
	return func(ctx context.Context, r *report) error {
		return errors.Join(
			r.goTest(ctx, "test", built(fmt.Sprintf("CSI_PROXY_KILLS=%d", times)), "-timeout=4h", "-run=^TestKillUnderLoad$", "./operations"),
			r.goTest(ctx, "cmd", nil, "-run=^TestKillLosesNoLine$", "./internal/daemon", "-kills=100"))
	}
}

// realServer tests the package that builds and starts an API server.
func realServer(ctx context.Context, r *report) error {
	if err := r.goTest(ctx, clusterDir, inCluster, "-vet=all", "-timeout=40m", "./apiserver", deployTests); err != nil {
		return err
	}
	script, reason, err := installWine(ctx, r)
	if err == nil && reason == "" {
		err = r.goTest(ctx, clusterDir, append(windows(), inCluster...), "-exec='"+script+"' exec", "./joined")
	} else if err == nil {
		r.skip("the paths that the kubelet joins, under Wine", reason)
	}
	return err
}

// realCluster tests the packages that run Kubernetes over simulated nodes.
func realCluster(ctx context.Context, r *report) error {
	return errors.Join(
		r.goTest(ctx, clusterDir, inCluster, "-vet=all", "-timeout=90m", "-p=1", ".", "./csi-proxy-cluster", "./kubernetes", "./programs", "./translation"),
		r.check(ctx, sidecarsDir, inCluster, "go", "mod", "tidy", "-diff"))
}
