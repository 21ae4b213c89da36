package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"
)

// impossible is the exit code of hack/wine.sh for a machine that cannot have Wine, and of
// hack/images.sh for one that cannot get the images. The last line of the output has the
// reason.
const impossible = 77

// wine runs tests of Windows builds under Wine.
type wine struct {
	r      *report
	root   string
	script string // hack/wine.sh
	env    []string
}

// installWine installs Wine if it is missing. If this machine cannot have it, it returns the
// reason.
func installWine(ctx context.Context, r *report) (script, reason string, err error) {
	return install(ctx, r, "wine", "build")
}

// getImages downloads the disk images for test/images, unless they are there.
func getImages(ctx context.Context, r *report) error {
	_, reason, err := install(ctx, r, "images", "get")
	if err == nil && reason != "" {
		r.skip("disks that Windows wrote", reason)
	} else if err == nil {
		r.pass()
	}
	return err
}

// install calls a script of hack with a command. If this machine cannot have what the
// script installs, it returns the reason.
func install(ctx context.Context, r *report, name, command string) (script, reason string, err error) {
	script, err = filepath.Abs(filepath.Join("hack", name+".sh"))
	if err != nil {
		return "", "", err
	}
	out, err := exec.CommandContext(ctx, script, command).CombinedOutput()
	said := strings.TrimSpace(string(out))
	r.logf("%s", said)
	var exit *exec.ExitError
	if errors.As(err, &exit) && exit.ExitCode() == impossible {
		return "", strings.TrimPrefix(said[strings.LastIndexByte(said, '\n')+1:], name+": "), nil
	}
	if err != nil {
		return "", "", fmt.Errorf("%s %s: %w", script, command, err)
	}
	return script, "", nil
}

// newWine calls installWine and then builds the programs for Windows. It
// returns nil and the reason if there is no Wine.
func newWine(ctx context.Context, r *report) (w *wine, reason string, err error) {
	root, err := filepath.Abs(".")
	if err != nil {
		return nil, "", err
	}
	script, reason, err := installWine(ctx, r)
	if err != nil || reason != "" {
		return nil, reason, err
	}
	if err := r.command(ctx, ".", nil, "make", "build-windows-amd64").Run(); err != nil {
		return nil, "", fmt.Errorf("make build-windows-amd64: %w", err)
	}
	exe := filepath.Join(root, "bin", "windows-amd64")
	return &wine{r, root, script, append(platform{"windows", "amd64"}.env(),
		fmt.Sprintf("CSI_PROXY_WINE_LIMIT=%.0f", (hung+time.Minute).Seconds()),
		"CSI_PROXY_BINARY="+onDriveZ(filepath.Join(exe, "csi-proxy.exe")),
		"CSI_PROXY_SIM_BINARY="+onDriveZ(filepath.Join(exe, "csi-proxy-sim.exe")))}, "", nil
}

// onDriveZ returns a path of this machine as Windows programs under Wine name it.
func onDriveZ(path string) string { return "Z:" + strings.ReplaceAll(path, "/", `\`) }

// test runs tests of the module in dir.
func (w *wine) test(ctx context.Context, dir string, more []string, args ...string) error {
	args = append([]string{vettedBefore, "-exec", "'" + w.script + "' exec"}, args...)
	return w.r.goTest(ctx, dir, append(w.env[:len(w.env):len(w.env)], more...), args...)
}

// mingw is the compiler for the driver.
const mingw = "x86_64-w64-mingw32-gcc"

// wineTests runs the Windows build under Wine: tests of Windows programs (test/wine), the
// published clients over named pipes, and tests of our packages that depend on Windows.
func wineTests(ctx context.Context, r *report) error {
	w, reason, err := newWine(ctx, r)
	if err != nil {
		return err
	}
	if w == nil {
		r.skip("all of the Windows build under Wine", reason)
		return nil
	}
	driver, err := w.buildDriver(ctx)
	if err != nil {
		return err
	}
	return together(
		func() error { return w.ours(ctx) },
		func() error { return errors.Join(w.theirs(ctx), w.withDriver(ctx, driver)) })
}

// ours runs the tests of our packages that depend on Windows.
func (w *wine) ours(ctx context.Context) error {
	return errors.Join(
		w.test(ctx, ".", nil, "-skip", sameOnLinux, "./internal/win32/native/...", "./internal/apiserver/pipes", "./internal/apiserver/serve",
			"./internal/node", "./pkg/disk/hostapi", "./pkg/utils", "./pkg/winpath", "./pkg/simnode", "./pkg/simnode/serve", "./pkg/simnode/control", "./pkg/remote",
			"./client/pipe", "./client/transport", "./client/negotiate",
			"./cmd/csi-proxy", "./cmd/internal/daemon", "./cmd/internal/logs", "./cmd/internal/winsvc", "./cmd/internal/install", "./cmd/csi-proxyctl", "./test/wine"),
		w.test(ctx, "cmd", nil, "-run", "^Test(UnderWine|Undo)$", "./internal/verify"))
}

// sameOnLinux are long tests in which nothing is of Windows.
const sameOnLinux = "^Test(FaultAtEachCall|Matrix)$"

// theirs runs the example driver, the published clients, and pkg/mounter with the published
// servers.
func (w *wine) theirs(ctx context.Context) error {
	alone := []string{"GOWORK=off"}
	return errors.Join(
		w.exampleDriver(ctx, alone),
		w.test(ctx, "test/published/v1.3.0", alone, "."),
		// The older client calls through the same pipes, and the stage published has all of its calls.
		w.test(ctx, "test/published/v1.0.1", alone, "-run", "^TestCalls$/^(disk|filesystem|smb|volume)$/^v1$", "."),
		w.test(ctx, clusterDir, alone, "./servers"))
}

// withDriver runs what needs a C compiler for Windows: the tests with the driver, whose environment
// driver is, and the race detector. Without one, driver is nil.
func (w *wine) withDriver(ctx context.Context, driver []string) error {
	if driver == nil {
		return nil
	}
	race := []string{"CGO_ENABLED=1", "CC=" + mingw}
	return errors.Join(
		w.test(ctx, "test", driver, "./wine/driver"),
		w.test(ctx, "test", driver, "-run", "WithDriver$", "./wine"),
		// What Windows does at the same time as our code. The server above the pipes is the same
		// on Linux, where the stage race tests it.
		// The race detector takes memory itself, which TestThousandCalls measures without it.
		w.test(ctx, ".", race, "-race", quick, "-skip", "^TestThousandCalls$", "./internal/win32/native/...", "./internal/apiserver/pipes", "./client/pipe"))
}

// exampleDriver runs csi-sanity and the life of volumes on the program of the example
// driver, which reaches the proxy through named pipes.
func (w *wine) exampleDriver(ctx context.Context, env []string) error {
	exe := filepath.Join(w.root, "bin", "windows-amd64", "csi-driver.exe")
	build := append(platform{"windows", "amd64"}.env(), env...)
	if err := w.r.command(ctx, exampleDir, build, "go", "build", "-o", exe, ".").Run(); err != nil {
		return fmt.Errorf("build %s: %w", exampleDir, err)
	}
	return w.test(ctx, exampleDir, append(env[:len(env):len(env)], "CSI_DRIVER_EXE="+onDriveZ(exe)), "-run", "^Test(Sanity|Story)$", "./driver")
}

// buildDriver builds the driver of test/wine/driver and its DLLs, and returns the
// environment of tests that use them, or nil without a compiler.
func (w *wine) buildDriver(ctx context.Context) ([]string, error) {
	if !have(mingw) {
		const why = "it needs " + mingw
		w.r.skip("disks and volumes of the model under Wine", why)
		w.r.skip("the race detector in a Windows build", why)
		return nil, nil
	}
	source, to := filepath.Join(w.root, "test", "wine", "driver", "c"), filepath.Join(w.root, "bin", "wine")
	if err := os.MkdirAll(to, 0o755); err != nil {
		return nil, err
	}
	gcc := func(out, in string, args ...string) error {
		args = append([]string{"-Os", "-Wall", "-Wextra", "-Wno-parentheses", "-Werror", "-shared", "-o", filepath.Join(to, out), in}, args...)
		return w.r.command(ctx, source, nil, mingw, args...).Run()
	}
	err := errors.Join(
		gcc("node.sys", "node.c", "-I/usr/share/mingw-w64/include/ddk", "-ffreestanding", "-nostdlib",
			"-Wl,--subsystem,native", "-Wl,--entry,DriverEntry", "-lntoskrnl"),
		gcc("fmifs.dll", "fmifs.c"), gcc("iscsidsc.dll", "iscsidsc.c"), gcc("cfgmgr32.dll", "cfgmgr32.c"), gcc("netapi32.dll", "netapi32.c"))
	if err != nil {
		return nil, fmt.Errorf("build the driver: %w", err)
	}
	w.r.pass()
	// Wine has two of the DLLs, but only stubs of the functions that ours have.
	return []string{"CSI_PROXY_WINE_DRIVER=" + onDriveZ(to), "WINEDLLOVERRIDES=cfgmgr32,netapi32=n"}, nil
}
