package main

import (
	"context"
	"debug/buildinfo"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"slices"
	"strings"
)

// impossible is the exit code of hack/wine.sh for a machine that cannot have Wine, and of
// hack/images.sh for one that cannot get the images. The last line of the output has the
// reason.
const impossible = 77

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
	script = absolute("hack/" + name + ".sh")
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

// wine runs tests of Windows builds under Wine.
type wine struct {
	r      *report
	script string // hack/wine.sh
}

// onDriveZ returns a file of the project as Windows programs under Wine name it.
func onDriveZ(path string) string { return "Z:" + strings.ReplaceAll(absolute(path), "/", `\`) }

// test runs tests of the module in dir.
func (w wine) test(ctx context.Context, dir string, more []string, args ...string) error {
	env := append(windows(), "CSI_PROXY_WINE_LIMIT=1860", // longer than hung
		"CSI_PROXY_BINARY="+onDriveZ("bin/windows-amd64/csi-proxy.exe"),
		"CSI_PROXY_SIM_BINARY="+onDriveZ("bin/windows-amd64/csi-proxy-sim.exe"))
	return w.r.goTest(ctx, dir, append(env, more...), append([]string{"-exec='" + w.script + "' exec"}, args...)...)
}

// mingw is the compiler for the driver.
const mingw = "x86_64-w64-mingw32-gcc"

// wineTests runs the Windows build under Wine: tests of Windows programs (test/wine), the
// published clients over named pipes, and tests of our packages that depend on Windows.
func wineTests(ctx context.Context, r *report) error {
	script, reason, err := installWine(ctx, r)
	if err != nil {
		return err
	}
	if reason != "" {
		r.skip("all of the Windows build under Wine", reason)
		return nil
	}
	if err := r.check(ctx, ".", nil, "make", "build-windows-amd64"); err != nil {
		return err
	}
	w := wine{r, script}
	return together(
		func() error { return w.ours(ctx) },
		func() error { return errors.Join(w.theirs(ctx), w.withDriver(ctx)) })
}

// ours runs the tests of our packages that depend on Windows, except long ones in which nothing does.
func (w wine) ours(ctx context.Context) error {
	return errors.Join(
		w.test(ctx, ".", nil, "-p=4", "-skip=^Test(Matrix)$", "./internal/win32/native/...", "./internal/apiserver/pipes", "./internal/apiserver/serve",
			"./internal/node", "./pkg/disk/hostapi", "./pkg/utils", "./pkg/winpath", "./pkg/simnode", "./pkg/simnode/serve", "./pkg/remote",
			"./client/pipe", "./client/transport", "./client/negotiate",
			"./cmd/csi-proxy", "./cmd/internal/daemon", "./cmd/internal/logs", "./cmd/internal/winsvc", "./cmd/internal/install", "./cmd/csi-proxyctl", "./test/wine"),
		w.test(ctx, "cmd", nil, "-run=^Test(UnderWine|Undo)$", "./internal/verify"))
}

// theirs runs the published clients, and pkg/mounter with the published servers.
func (w wine) theirs(ctx context.Context) error {
	return errors.Join(
		w.test(ctx, "test/published/v1.3.0", alone, "."),
		// The older client calls through the same pipes, and the stage published has all of its calls.
		w.test(ctx, "test/published/v1.0.1", alone, "-run=^TestCalls$/^(disk|filesystem|smb|volume)$/^v1$", "."),
		w.test(ctx, clusterDir, inCluster, "./servers"))
}

// withDriver runs what needs a C compiler for Windows: the tests with the driver and the DLLs of
// test/wine/driver, and the race detector.
func (w wine) withDriver(ctx context.Context) error {
	if !have(mingw) {
		w.r.skip("disks and volumes of the model, and the race detector, in a Windows build", "they need "+mingw)
		return nil
	}
	to := absolute("bin/wine")
	if err := os.MkdirAll(to, 0o755); err != nil {
		return err
	}
	errs := []error{}
	for _, name := range []string{"node", "fmifs", "iscsidsc", "cfgmgr32", "netapi32"} {
		out, more := name+".dll", []string{}
		if name == "node" {
			out, more = "node.sys", strings.Fields("-I/usr/share/mingw-w64/include/ddk -ffreestanding -nostdlib -Wl,--subsystem,native -Wl,--entry,DriverEntry -lntoskrnl")
		}
		args := append(strings.Fields("-Os -Wall -Wextra -Wno-parentheses -Werror -shared -o"), filepath.Join(to, out), name+".c")
		errs = append(errs, w.r.check(ctx, "test/wine/driver/c", nil, mingw, slices.Concat(args, more)...))
	}
	if err := errors.Join(errs...); err != nil {
		return err
	}
	// Ours replace two DLLs of Wine, whose functions of these names do nothing.
	driver := []string{"CSI_PROXY_WINE_DRIVER=" + onDriveZ(to), "WINEDLLOVERRIDES=cfgmgr32,netapi32=n"}
	return errors.Join(
		w.test(ctx, "test", driver, "./wine/driver"),
		w.test(ctx, "test", driver, "-run=WithDriver$", "./wine"),
		// What Windows does at the same time as our code. The server above the pipes is the same
		// on Linux, where the stage race tests it.
		// The race detector takes memory itself, which TestThousandCalls measures without it.
		w.test(ctx, ".", []string{"CGO_ENABLED=1", "CC=" + mingw}, "-race", "-short", "-skip=^TestThousandCalls$", "./internal/win32/native/...", "./internal/apiserver/pipes", "./client/pipe"))
}

// The driver of GCE PD is built from its own module, with the versions that it requires. The version is
// that of its Makefile.
const (
	gcepdVersion = "v1.28.1"
	gcepdProgram = "sigs.k8s.io/gcp-compute-persistent-disk-csi-driver/cmd/gce-pd-csi-driver"
)

// labTests tests packages of the lab. With Wine, the driver of GCE PD is built for lab/gcepd once, as
// docs/drivers/lab.md does it, so that its test finds it built.
func labTests(packages string) func(context.Context, *report) error {
	return func(ctx context.Context, r *report) error {
		_, reason, err := installWine(ctx, r)
		if err != nil {
			return err
		}
		var env []string
		if reason == "" {
			gopath, err := exec.CommandContext(ctx, "go", "env", "GOPATH").Output()
			if err != nil {
				return fmt.Errorf("go env: %w", err)
			}
			exe := filepath.Join(strings.TrimSpace(string(gopath)), "bin", "windows_amd64", path.Base(gcepdProgram)+".exe")
			info, err := buildinfo.ReadFile(exe)
			if err != nil || info.Main.Version != gcepdVersion {
				if err := r.check(ctx, ".", append(windows(), "GOWORK=off", "GOBIN=", "GOFLAGS=-trimpath"), "go", "install", "-ldflags=-X main.version="+gcepdVersion, gcepdProgram+"@"+gcepdVersion); err != nil {
					return fmt.Errorf("%w; its modules come from the module proxy", err)
				}
			}
			env = []string{"CSI_PROXY_GCEPD_BINARY=" + exe}
		}
		return r.goTest(ctx, labDir, env, packages)
	}
}
