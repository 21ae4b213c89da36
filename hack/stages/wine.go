package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"time"
)

// wineCannot is the exit code by which hack/wine.sh says that this machine
// cannot have a Wine, and on its last line why.
const wineCannot = 77

// wineTests runs the Windows build under Wine: tests of Windows programs
// (test/wine), the published clients over named pipes, and those of our packages
// that meet Windows.
func wineTests(ctx context.Context, r *report) error {
	root, err := filepath.Abs(".")
	if err != nil {
		return err
	}
	script := filepath.Join(root, "hack", "wine.sh")
	out, err := exec.CommandContext(ctx, script, "build").CombinedOutput()
	said := strings.TrimSpace(string(out))
	r.logf("%s", said)
	var exit *exec.ExitError
	if errors.As(err, &exit) && exit.ExitCode() == wineCannot {
		r.skip("all of the Windows build under Wine", strings.TrimPrefix(said[strings.LastIndexByte(said, '\n')+1:], "wine: "))
		return nil
	}
	if err != nil {
		return fmt.Errorf("%s build: %w", script, err)
	}
	exe := filepath.Join("bin", "windows-amd64")
	if err := r.command(ctx, ".", nil, "make", "build-windows-amd64").Run(); err != nil {
		return err
	}

	env := append(platform{"windows", "amd64"}.env(), fmt.Sprintf("CSI_PROXY_WINE_LIMIT=%.0f", (hung+time.Minute).Seconds()),
		"CSI_PROXY_BINARY=Z:"+strings.ReplaceAll(filepath.Join(root, exe, "csi-proxy.exe"), "/", `\`),
		"CSI_PROXY_SIM_BINARY=Z:"+strings.ReplaceAll(filepath.Join(root, exe, "csi-proxy-sim.exe"), "/", `\`))
	test := func(dir string, more []string, args ...string) error {
		args = append([]string{"-exec", "'" + script + "' exec"}, args...)
		return r.goTest(ctx, dir, append(env[:len(env):len(env)], more...), args...)
	}
	r.operations = nil
	errs := []error{
		r.goTest(ctx, "test", nil, "-run", "^TestOperations$", "./wine"), // over the emulated node
		test("test", nil, "./wine", "./windows"),
		test(".", nil, "./internal/win32/native/...", "./internal/apiserver",
			"./internal/node", "./pkg/disk/hostapi", "./pkg/utils", "./pkg/simnode/...", "./pkg/remote", "./pkg/conformance"),
		test("client", nil, "./..."),
		test("cmd", nil, "./csi-proxy", "./csi-proxy-sim", "./internal/daemon", "./internal/simhost", "./csi-proxyctl"),
	}
	published := []string{"GOWORK=off"}
	var v101 error
	var side sync.WaitGroup
	side.Go(func() { v101 = test("test/published/v1.0.1", published, ".") })
	v130 := test("test/published/v1.3.0", published, ".")
	side.Wait()
	errs = append(errs, v101, v130)

	if !have("x86_64-w64-mingw32-gcc") {
		const why = "it needs x86_64-w64-mingw32-gcc"
		r.skip("whether "+operationsPage+" is current", why)
		r.skip("disks and volumes of the model under Wine", why)
		r.skip("the race detector in a Windows build", why)
		return errors.Join(errs...)
	}
	driver, err := buildDriver(ctx, r, root)
	if err != nil {
		return errors.Join(append(errs, err)...)
	}
	errs = append(errs,
		test("test", driver, "./wine/driver"),
		test("test", driver, "-run", "WithDriver$", "./wine"))
	if errors.Join(errs...) == nil {
		errs = append(errs, r.checkOperations())
	}
	race := []string{"CGO_ENABLED=1", "CC=x86_64-w64-mingw32-gcc"}
	return errors.Join(append(errs,
		// TestThousandCalls measures memory, of which the race detector takes some per call.
		test(".", race, "-race", quick, "-skip", "^TestThousandCalls$", "./internal/win32/native/...", "./internal/apiserver"),
		test("client", race, "-race", "./pipe", "./transport"))...)
}

// buildDriver builds the driver of test/wine/driver and the DLLs beside it, and
// returns what tests that use them want in their environment.
func buildDriver(ctx context.Context, r *report, root string) ([]string, error) {
	source, to := filepath.Join(root, "test", "wine", "driver", "c"), filepath.Join(root, "bin", "wine")
	if err := os.MkdirAll(to, 0o755); err != nil {
		return nil, err
	}
	gcc := func(out, in string, args ...string) error {
		args = append([]string{"-Os", "-Wall", "-Wextra", "-Wno-parentheses", "-Werror", "-shared", "-o", filepath.Join(to, out), in}, args...)
		return r.command(ctx, source, nil, "x86_64-w64-mingw32-gcc", args...).Run()
	}
	err := errors.Join(
		gcc("node.sys", "node.c", "-I/usr/share/mingw-w64/include/ddk", "-ffreestanding", "-nostdlib",
			"-Wl,--subsystem,native", "-Wl,--entry,DriverEntry", "-lntoskrnl"),
		gcc("fmifs.dll", "fmifs.c"), gcc("iscsidsc.dll", "iscsidsc.c"), gcc("cfgmgr32.dll", "cfgmgr32.c"), gcc("netapi32.dll", "netapi32.c"))
	if err != nil {
		return nil, fmt.Errorf("build the driver: %w", err)
	}
	r.pass()
	// Wine has two of the DLLs, with stubs for what ours do; the others it lacks.
	return []string{"CSI_PROXY_WINE_DRIVER=Z:" + strings.ReplaceAll(to, "/", `\`), "WINEDLLOVERRIDES=cfgmgr32,netapi32=n"}, nil
}

// operationsPage is the page that the tests' records make.
const operationsPage = "docs/evidence/operations.md"

// checkOperations compares the page with what the tests recorded in this run.
func (r *report) checkOperations() error {
	page := operationsTable(r.operations)
	have, err := os.ReadFile(operationsPage)
	if err != nil || string(have) != page {
		recorded := filepath.Join("bin", filepath.Base(operationsPage))
		if err := os.WriteFile(recorded, []byte(page), 0o644); err != nil {
			return err
		}
		return fmt.Errorf("%s is not what the tests recorded: cp %s %s", operationsPage, recorded, operationsPage)
	}
	r.pass()
	return nil
}

// operationsTable makes the page of records.
func operationsTable(records []string) string {
	type row struct {
		calls string
		on    map[string]bool
	}
	var names []string
	rows := map[string]*row{}
	for _, record := range records {
		on, rest, _ := strings.Cut(record, "|")
		name, calls, _ := strings.Cut(rest, "|")
		if rows[name] == nil {
			rows[name] = &row{calls: calls, on: map[string]bool{}}
			names = append(names, name)
		}
		rows[name].on[on] = true
	}
	yes := map[bool]string{true: "yes", false: "–"}
	var b strings.Builder
	b.WriteString("<!-- Code generated by make wine from the records of TestOperations in test/wine. DO NOT EDIT. -->\n\n" +
		"# Which operation was verified on what\n\n" +
		"One call of each, with its answer checked. The Win32 calls are those that succeeded\n" +
		"over the emulated node, as package win32 names them. Wine is a second opinion on what\n" +
		"Windows does, and no more; [verification](verification.md) says what it cannot show.\n" +
		"\"Wine + driver\" is our native code, through Wine's own calls, against our model of\n" +
		"disks and volumes: no second opinion on those. The stage wine of `make test` fails if\n" +
		"this page is not current.\n\n" +
		"| operation | Win32 calls | emulated | Wine 10 | Wine + driver | Windows |\n|---|---|:---:|:---:|:---:|:---:|\n")
	for _, name := range names {
		windows := "not yet"
		if rows[name].on["Windows"] {
			windows = "yes"
		}
		on := rows[name].on
		fmt.Fprintf(&b, "| %s | %s | %s | %s | %s | %s |\n", name, rows[name].calls, yes[on["emulated"]], yes[on["Wine"]], yes[on["Wine + driver"]], windows)
	}
	return b.String()
}
