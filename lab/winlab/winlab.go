// Package winlab runs an unmodified Windows CSI driver, a .exe, on Linux: under Wine, on a
// simulated node of the same test. So a test can let Windows calls fail, take disks and
// servers away, stop CSI Proxy or kill the driver, while it makes CSI calls:
//
//	func TestStage(t *testing.T) {
//		n := simnode.New(t)
//		lab := winlab.Start(t, n, "bin/driver.exe", "--nodeid=node-1")
//		conn, err := grpc.NewClient("passthrough:///"+lab.Endpoint(), …)
//		…
//		n.Fail(simnode.Fault{Call: winapi.Format, Error: "ERROR_IO_DEVICE", Times: 1})
//		n.DetachDisk(1)
//		lab.Proxy.Stop()
//		lab.Kill()
//	}
//
// The driver reaches CSI Proxy through its usual named pipes. It sees links, mounted
// volumes and their sizes in its file system, as package mirror describes.
//
// # What it cannot show
//
// Rights: Wine checks no access rights, and there is no container. NTFS: volumes are
// directories of Linux. The network of Windows: `\\server\share` has no files. And what
// Windows answers is our reading of Windows, the simulated node's.
package winlab

import (
	"cmp"
	"context"
	"debug/pe"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/kubernetes-csi/csi-proxy/v2/pkg/filesystem"
	"github.com/kubernetes-csi/csi-proxy/v2/pkg/simnode"
	"github.com/kubernetes-csi/csi-proxy/v2/pkg/simnode/serve"
	"github.com/kubernetes-csi/csi-proxy/v2/pkg/winpath"

	"github.com/kubernetes-csi/csi-proxy/lab/internal/port"
	"github.com/kubernetes-csi/csi-proxy/lab/mirror"
	"github.com/kubernetes-csi/csi-proxy/lab/relay"
	"github.com/kubernetes-csi/csi-proxy/lab/session"
	"github.com/kubernetes-csi/csi-proxy/lab/shim"
)

// Config configures a lab. Its zero value is good for most drivers.
type Config struct {
	// Serve configures what CSI Proxy serves: for example the versions before v1 only.
	Serve serve.Config
	// Relay is the path of csi-proxy-relay.exe. Empty means that it is built with the go
	// command, in the module of the current directory.
	Relay string
	// Log gets the output of the driver and of the lab. It may be nil.
	Log io.Writer
}

// BeforeV1 returns the published versions before v1, for [serve.Config.APIs]: what a proxy
// before v1 served. A driver falls back to the one for which it was built, which need not
// be the last. GCE PD asks for disk/v1beta2.
func BeforeV1() []string {
	return []string{
		"disk/v1alpha1", "disk/v1beta1", "disk/v1beta2", "disk/v1beta3",
		"filesystem/v1alpha1", "filesystem/v1beta1", "filesystem/v1beta2",
		"iscsi/v1alpha1", "iscsi/v1alpha2",
		"smb/v1alpha1", "smb/v1beta1", "smb/v1beta2",
		"system/v1alpha1",
		"volume/v1alpha1", "volume/v1beta1", "volume/v1beta2", "volume/v1beta3",
	}
}

// Lab is a simulated node with Wine, and a driver in it. Its methods may be called
// concurrently.
type Lab struct {
	// Proxy is CSI Proxy, which can be stopped and restarted.
	Proxy *serve.Server

	config  Config
	node    *simnode.Node
	dir     string
	session *session.Session
	relay   *relay.Relay
	mirror  *mirror.Mirror

	mu       sync.Mutex // not held while a driver starts or ends
	driver   Driver
	endpoint string // empty until the driver accepts connections
	process  *session.Process
}

// TB is the part of *testing.T that [Start] and [New] need.
type TB interface {
	simnode.TB
	Context() context.Context
	Skipf(format string, args ...any)
	Output() io.Writer
}

// Start runs a driver until the test ends, and returns when it accepts connections. The
// driver gets the argument --endpoint=tcp://<address>, unless an argument has the text
// ENDPOINT or ADDRESS, which stand for tcp://<address> and <address>, or an argument or a
// variable of the environment ends with an endpoint such as unix://C:\csi\csi.sock. The test is
// skipped on a machine without Wine or mingw-w64.
func Start(t TB, n *simnode.Node, exe string, args ...string) *Lab {
	t.Helper()
	l := New(t, n)
	if err := l.Run(t.Context(), exe, args...); err != nil {
		t.Fatalf("winlab: %v", err)
	}
	return l
}

// New makes a lab without a driver, which [Lab.Run] runs. The functions change the
// configuration.
func New(t TB, n *simnode.Node, change ...func(*Config)) *Lab {
	t.Helper()
	config := Config{Log: t.Output()}
	for _, f := range change {
		f(&config)
	}
	l, err := Open(t.Context(), n, config)
	if errors.Is(err, session.ErrNoWine) || errors.Is(err, shim.ErrNoCompiler) {
		t.Skipf("%v", err)
	}
	if err != nil {
		t.Fatalf("winlab: %v", err)
	}
	t.Cleanup(func() {
		n.ClearFaults() // calls that they delay would delay the end
		if err := l.Close(); err != nil {
			t.Errorf("winlab: %v", err)
		}
	})
	return l
}

// Open makes a lab without a driver. The caller must call [Lab.Close]. If this machine has
// no Wine, the error is [session.ErrNoWine], and without mingw-w64 it is [shim.ErrNoCompiler].
func Open(ctx context.Context, n *simnode.Node, config Config) (_ *Lab, err error) {
	if config.Log == nil {
		config.Log = io.Discard
	}
	l := &Lab{config: config, node: n}
	defer func() {
		if err != nil {
			err = errors.Join(err, l.Close())
		}
	}()
	if l.dir, err = os.MkdirTemp("", "csi-proxy-winlab"); err != nil {
		return nil, err
	}
	// Before Wine, which takes seconds to start: the configuration may be wrong.
	if l.Proxy, err = serve.Open(n, config.Serve); err != nil {
		return nil, err
	}
	if l.session, err = session.Open(ctx, config.Log); err != nil {
		return nil, err
	}
	if err := shim.Install(ctx, l.session); err != nil {
		return nil, err
	}
	if l.mirror, err = mirror.Start(l.session, n, slog.New(slog.NewTextHandler(config.Log, nil))); err != nil {
		return nil, err
	}
	exe := config.Relay
	if exe == "" {
		exe = filepath.Join(l.dir, "csi-proxy-relay.exe")
		if err := relay.Build(ctx, exe); err != nil {
			return nil, err
		}
	}
	l.relay, err = relay.Start(ctx, l.session, exe, l.Proxy.Dir())
	return l, err
}

// Close ends the driver, CSI Proxy and Wine. The node stays.
func (l *Lab) Close() error {
	var errs []error
	l.Kill()
	if l.relay != nil {
		errs = append(errs, l.relay.Close())
	}
	if l.Proxy != nil {
		errs = append(errs, l.Proxy.Close())
	}
	if l.mirror != nil {
		errs = append(errs, l.mirror.Close())
	}
	if l.session != nil {
		errs = append(errs, l.session.Close())
	}
	return errors.Join(append(errs, os.RemoveAll(l.dir))...)
}

// listening is how long a driver may take until it accepts connections.
const listening = time.Minute

// Driver is a driver to run.
type Driver struct {
	Exe  string
	Args []string
	Env  []string // more variables of its environment, as "NAME=value"
	// Files are files of drive C:, by their paths, as a container has them from a ConfigMap or a
	// Secret. They are written before the driver starts.
	Files map[string]string
}

// ErrEnded is the error for a program that ends with exit code 0 before it accepts
// connections, as a test does.
var ErrEnded = errors.New("ended")

// Run runs a driver as [Start] does, in place of the one that runs.
func (l *Lab) Run(ctx context.Context, exe string, args ...string) error {
	return l.RunWith(ctx, Driver{Exe: exe, Args: args})
}

// RunWith is Run for a driver with an environment of its own. If the context ends before
// the driver accepts connections, the driver is killed.
func (l *Lab) RunWith(ctx context.Context, d Driver) error {
	if err := checkProgram(d.Exe); err != nil {
		return fmt.Errorf("run %s: %w", d.Exe, err)
	}
	return l.run(ctx, d)
}

// errNotWindows is the error for a driver that Windows on amd64 does not run.
var errNotWindows = errors.New("it is not a Windows amd64 program; build it with GOOS=windows GOARCH=amd64")

// checkProgram returns an error unless Wine can run a file.
func checkProgram(file string) error {
	f, err := os.Open(file)
	if err != nil {
		return err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return err
	}
	if !info.Mode().IsRegular() {
		return errNotWindows
	}
	// An object file has no optional header.
	program, err := pe.NewFile(f)
	if err != nil || program.Machine != pe.IMAGE_FILE_MACHINE_AMD64 || program.OptionalHeader == nil {
		return errNotWindows
	}
	return nil
}

// run starts a driver in place of the one that runs, and waits until it listens. Its address is
// a new one each time, because Wine may still accept connections for a driver that was killed.
func (l *Lab) run(ctx context.Context, d Driver) error {
	address, release, err := port.Reserve()
	if err != nil {
		return err
	}
	defer release()
	p, where, err := l.start(ctx, d, address)
	if err != nil {
		return err
	}
	if address, err = wait(ctx, d.Exe, p, where); err != nil {
		return err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.process != p {
		return fmt.Errorf("run %s: another driver was run in its place", d.Exe)
	}
	l.endpoint = address
	return nil
}

// ofSocket is the endpoint of a driver that it has as it ships.
var ofSocket = regexp.MustCompile(`(?:^|=)unix:(?://)?/?([A-Za-z]:)?([/\\][^\s]+)$`)

// start starts a driver, in place of the one that runs. It is to listen on the address,
// unless an argument or a variable has a Unix socket. where returns the address at which it can be
// reached, once it listens.
func (l *Lab) start(ctx context.Context, d Driver, address string) (p *session.Process, where func() string, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if err := ctx.Err(); err != nil {
		return nil, nil, fmt.Errorf("run %s: %w", d.Exe, err)
	}
	if l.process != nil {
		l.process.Kill()
	}
	l.driver, l.endpoint = d, ""
	for path, content := range d.Files {
		if err := l.writeNew(path, content); err != nil {
			return nil, nil, fmt.Errorf("run %s: %w", d.Exe, err)
		}
	}
	where = func() string { return address }
	var args []string
	// A test of Go has no such flag.
	placed := strings.HasSuffix(d.Exe, ".test.exe")
	for _, arg := range d.Args {
		placed = placed || strings.Contains(arg, "ENDPOINT") || strings.Contains(arg, "ADDRESS")
		args = append(args, strings.NewReplacer("ENDPOINT", "tcp://"+address, "ADDRESS", address).Replace(arg))
	}
	for _, text := range slices.Concat(d.Args, d.Env) {
		if found := ofSocket.FindStringSubmatch(text); found != nil {
			placed = true
			path := cmp.Or(found[1], "C:") + strings.ReplaceAll(found[2], "/", `\`)
			// Pods have this directory from a volume.
			if err := os.MkdirAll(l.session.OnLinux(path[:strings.LastIndex(path, `\`)]), 0o755); err != nil {
				return nil, nil, fmt.Errorf("run %s: %w", d.Exe, err)
			}
			_, before := shim.Socket(l.session, path)
			where = func() string {
				if at, now := shim.Socket(l.session, path); now != before {
					return at
				}
				return ""
			}
		}
	}
	if !placed {
		args = append(args, "--endpoint=tcp://"+address)
	}
	l.process, err = l.session.Start(session.Program{Path: d.Exe, Args: args, Env: append(slices.Clone(d.Env), shim.Env), Log: l.config.Log})
	return l.process, where, err
}

// writeNew writes a file of drive C:, with the directories above it.
func (l *Lab) writeNew(path, content string) error {
	path = winpath.Clean(path)
	if !strings.EqualFold(path[:min(3, len(path))], `C:\`) || strings.HasSuffix(path, `\`) {
		return fmt.Errorf(`the file %s: want a path of drive C:, such as C:\k\azure.json`, path)
	}
	if err := os.MkdirAll(l.session.OnLinux(path[:strings.LastIndex(path, `\`)]), 0o755); err != nil {
		return err
	}
	return l.session.WriteFile(path, content)
}

// wait waits until a driver listens, and returns the address. If it does not, it is killed.
func wait(ctx context.Context, exe string, p *session.Process, where func() string) (address string, err error) {
	limit := time.After(listening)
	dialer := net.Dialer{Timeout: time.Second}
	for {
		if address = where(); address != "" {
			c, err := dialer.DialContext(ctx, "tcp", address)
			if err == nil {
				return address, c.Close()
			}
		}
		select {
		case <-p.Ended():
			if err := p.Wait(ctx); err != nil {
				return "", err
			}
			return "", fmt.Errorf("%s %w; its output:\n%s", exe, ErrEnded, p.Output())
		case <-ctx.Done():
			p.Kill()
			return "", fmt.Errorf("run %s: it was killed before it listened on %s: %w", exe, cmp.Or(address, "its socket"), ctx.Err())
		case <-limit:
			p.Kill()
			return "", fmt.Errorf("run %s: it does not listen on %s after %v, and was killed; give it an argument with ENDPOINT or ADDRESS; its output:\n%s", exe, cmp.Or(address, "its socket"), listening, p.Output())
		case <-time.After(20 * time.Millisecond):
		}
	}
}

// WriteFile writes a file as a pod does, to the volume at a path: for the driver, and for
// CSI Proxy, to which the volume then holds data.
func (l *Lab) WriteFile(path, content string) error {
	if err := l.node.PutFile(path, false, int64(len(content))); err != nil {
		return err
	}
	return l.session.WriteFile(path, content)
}

// ReadFile reads a file as a pod does. The error is fs.ErrNotExist if one of CSI Proxy and
// the driver does not see it.
func (l *Lab) ReadFile(path string) (string, error) {
	out, err := l.node.Filesystem().PathExists(context.Background(), &filesystem.PathExistsRequest{Path: path})
	if err == nil && !out.Exists {
		err = &fs.PathError{Op: "read", Path: path, Err: fs.ErrNotExist}
	}
	if err != nil {
		return "", err
	}
	return l.session.ReadFile(path)
}

// Endpoint returns the address of the driver, as host:port. It is empty unless a driver
// runs and accepts connections.
func (l *Lab) Endpoint() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.process == nil {
		return ""
	}
	select {
	case <-l.process.Ended():
		return ""
	default:
		return l.endpoint
	}
}

// Output returns what the driver has written since it was started.
func (l *Lab) Output() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.process == nil {
		return ""
	}
	return l.process.Output()
}

// Stop ends the driver as Ctrl+C does, and kills it after ten seconds.
func (l *Lab) Stop() { l.end(func(p *session.Process) { p.Stop(10 * time.Second) }) }

// Kill ends the driver at once, as the end of its container does.
func (l *Lab) Kill() { l.end((*session.Process).Kill) }

func (l *Lab) end(how func(*session.Process)) {
	l.mu.Lock()
	p := l.process
	l.mu.Unlock()
	if p != nil {
		how(p)
	}
}

// Restart starts the driver again, after killing it if it runs. It has another endpoint
// then, so callers must connect to [Lab.Endpoint] again.
func (l *Lab) Restart(ctx context.Context) error {
	l.mu.Lock()
	d := l.driver
	l.mu.Unlock()
	return l.RunWith(ctx, d)
}
