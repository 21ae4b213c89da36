// Package daemon contains everything that csi-proxy and csi-proxy-sim share. It parses
// the command line, serves every version of the API, and lets running calls finish when
// it stops. A [Host] opens the node: package windowshost for csi-proxy, and package
// simhost for csi-proxy-sim.
package daemon

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"os/signal"
	"runtime"
	"sync"
	"syscall"
	"time"

	"k8s.io/klog/v2"

	"github.com/kubernetes-csi/csi-proxy/v2/cmd/internal/logs"
	"github.com/kubernetes-csi/csi-proxy/v2/cmd/internal/metrics"
	"github.com/kubernetes-csi/csi-proxy/v2/cmd/internal/profiles"
	"github.com/kubernetes-csi/csi-proxy/v2/cmd/internal/winsvc"
	"github.com/kubernetes-csi/csi-proxy/v2/internal/admin"
	"github.com/kubernetes-csi/csi-proxy/v2/internal/apiserver/calls"
	"github.com/kubernetes-csi/csi-proxy/v2/internal/apiserver/pipes"
	"github.com/kubernetes-csi/csi-proxy/v2/internal/apiserver/serve"
	"github.com/kubernetes-csi/csi-proxy/v2/internal/policy"
	"github.com/kubernetes-csi/csi-proxy/v2/internal/win32"
	"github.com/kubernetes-csi/csi-proxy/v2/internal/winpath"
	"github.com/kubernetes-csi/csi-proxy/v2/pkg/smb"
)

// Exit codes.
const (
	exitOK      = 0
	exitFailure = 1
	exitUsage   = 2
)

// stuckAfter is how long a stop may take before it is logged what the process does.
const stuckAfter = 30 * time.Second

// spareHeap is the size of an allocation that is never used, so Windows and Linux give no memory
// for it. Go collects garbage when the heap has doubled. Without this, the heap of the daemon is
// so small that it doubles after 500 calls, and a call takes a third more processor time.
const spareHeap = 8 << 20

// Run runs the program until ctx ends or the process receives a signal to stop, and
// returns the exit code. The flags determine where it logs. An error that ends the
// program is also printed to stderr.
func Run(ctx context.Context, p Program, args []string, stderr io.Writer) int {
	o, err := parse(p, args, stderr)
	if errors.Is(err, flag.ErrHelp) {
		return exitOK
	}
	serving := func(ctx context.Context, service string, ready func()) int {
		o.service = service
		if err != nil {
			return o.refused(p, stderr, err)
		}
		defer o.openLog(stderr)()
		if err := run(ctx, p, o, ready); err != nil {
			return o.fail(p, stderr, err)
		}
		return exitOK
	}
	if o.windowsService || winsvc.Asked(args) {
		// A service whose settings are wrong registers first: Windows says of one that does not
		// only that it did not respond.
		code, failed := winsvc.Run(serving, os.Exit)
		if failed == nil {
			return code
		}
		if err == nil {
			defer o.openLog(stderr)()
			return o.fail(p, stderr, failed)
		}
	}
	if err != nil {
		return o.refused(p, stderr, err)
	}
	ctx, end := context.WithCancelCause(ctx)
	defer end(nil)
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM)
	defer signal.Stop(signals)
	limit := winsvc.TerminateTime() // the parent may have ended when the signal comes
	go func() {
		select {
		case s := <-signals:
			signal.Stop(signals) // a second signal ends the process immediately
			var cause error
			if s == syscall.SIGTERM && limit > 0 {
				cause = winsvc.Shutdown{Limit: limit}
			}
			end(cause)
		case <-ctx.Done():
		}
	}()
	return serving(ctx, "", func() {})
}

// refused reports what is wrong with the flags or their file.
func (o *options) refused(p Program, stderr io.Writer, err error) int {
	fmt.Fprintf(stderr, "%s: %v; %[1]s -h lists the flags\n", p.Name, err)
	if !o.log.ToStderr { // a service's standard error goes nowhere
		defer o.openLog(stderr)()
		klog.ErrorS(err, "Stopped CSI-Proxy Server: the command line or the configuration file is wrong")
		o.events.write(slog.LevelError, eventFailed, fmt.Sprintf("CSI Proxy %s stopped: the command line or the configuration file is wrong: %v", p.Version, err))
	}
	return exitUsage
}

// openLog begins to log where the flags say. A log file that cannot be opened does not keep
// the node from serving volumes: the log goes to stderr until it can. closeLog closes the
// files.
func (o *options) openLog(stderr io.Writer) (closeLog func()) {
	var errEvents error
	if o.windowsService {
		o.events, errEvents = openEvents(o.service)
	}
	files, err := logs.Set(o.log, stderr, func(err error) {
		// Later, because a failure of the event log is logged.
		go o.events.onceAWhile(slog.LevelError, eventNoLog, fmt.Sprintf("CSI Proxy cannot write its log file and keeps trying: %v", err))
	})
	closeLog, o.logs = files.Close, files
	if errEvents != nil {
		klog.ErrorS(errEvents, "Cannot write to the event log")
	}
	if err != nil {
		klog.ErrorS(err, "Cannot write the log file, logging to standard error and retrying")
		o.events.write(slog.LevelError, eventNoLog, fmt.Sprintf("CSI Proxy has no log file and tries it again every ten seconds: %v", err))
	}
	file := o.log.CrashFile()
	if file == "" {
		return closeLog
	}
	earlier, err := logs.CatchCrash(file)
	if err != nil {
		klog.ErrorS(err, "Cannot write crashes to a file", "file", file)
	}
	if earlier != "" {
		klog.ErrorS(nil, "Found the crash of an earlier process", "file", earlier)
		o.events.write(slog.LevelError, eventCrash, "An earlier process of CSI Proxy has crashed; what it did is in "+earlier)
	}
	return closeLog
}

// fail reports the error that ends the program on stderr and, if logs do not go there,
// in the log.
func (o *options) fail(p Program, stderr io.Writer, err error) int {
	fmt.Fprintf(stderr, "%s: %v\n", p.Name, err)
	if !o.log.ToStderr {
		klog.ErrorS(err, "Stopped CSI-Proxy Server")
	}
	o.events.write(slog.LevelError, eventFailed, fmt.Sprintf("CSI Proxy %s stopped: %v", p.Version, err))
	return exitFailure
}

// run opens the node and serves it until ctx ends. It calls ready when all pipes accept
// connections, or when it starts to wait for a process that serves them.
func run(ctx context.Context, p Program, o *options, ready func()) error {
	defer runtime.KeepAlive(make([]byte, spareHeap))
	stopped := make(chan struct{})
	defer close(stopped)
	go logs.DumpIfStuck(ctx, stopped, stuckAfter)
	klog.InfoS("Starting CSI-Proxy Server", "host", p.Host.Name(), "version", p.Version)
	if err := o.noLogFile(); err != nil {
		klog.ErrorS(err, "Logging to standard error only")
		o.events.write(slog.LevelError, eventNoLog, fmt.Sprintf("CSI Proxy has no log file: %v", err))
	}
	var background sync.WaitGroup
	defer background.Wait()
	ctx, end := context.WithCancel(ctx)
	defer end()

	config := serve.Config{
		Audit: o.audit, ReadOnly: o.ReadOnly, IgnoreFields: o.IgnoreFields, Failed: o.events.failed,
		Version: p.Version,
	}
	if o.pipeSDDL != "" {
		listen, err := pipes.ListenWith(o.pipeSDDL)
		if err != nil {
			return fmt.Errorf("flag -pipe-sddl: %w", err)
		}
		config.Listen = listen
		if !pipes.HasOwnerRights(o.pipeSDDL) {
			klog.InfoS("Added the rights of the owner to the pipes: without them, administrators could change those of others", "flag", "-pipe-sddl", "added", pipes.OwnerRights)
		}
		if warning := o.openPipes(); warning != "" {
			klog.Warning(warning)
		}
	}
	config.Calls = new(calls.Calls)
	m := metrics.New(p.Version)
	// Metrics, the state and profiles are served until running calls have finished.
	served, endMetrics := context.WithCancel(context.WithoutCancel(ctx))
	defer endMetrics()
	defer context.AfterFunc(ctx, m.Stopping)()
	web{metricsFlag, "/metrics", "Started metrics server", "Cannot serve metrics yet, retrying", "Stopped serving metrics", m.Serve}.start(served, &background, o, o.metricsAddress)
	web{pprofFlag, "/debug/pprof/", "Started profiles server", "Cannot serve profiles yet, retrying", "Stopped serving profiles", profiles.Serve}.start(served, &background, o, o.pprofAddress)
	if o.metricsAddress != "" {
		m.Count(&config)
	}
	dirs, err := policy.ParseDirs(o.AllWorkingDirs())
	if err != nil {
		return fmt.Errorf("working directories: %w", err)
	}
	for _, problem := range winpath.DirProblems(o.AllWorkingDirs()) {
		klog.Warning(problem)
	}
	var counts *win32.Counts
	if o.metricsAddress != "" {
		counts = win32.NewCounts()
	}
	n, err := p.Host.Open(o.Rules(), counts)
	if err != nil {
		return err
	}
	defer func() {
		if err := n.close(); err != nil {
			klog.ErrorS(err, "Failed to close node")
		}
	}()
	all, err := n.pipes(o, dirs, config.Calls, end)
	if err != nil {
		return err
	}
	states := n.states()
	if states != nil {
		config.Steps = states.Node.Steps
	}
	m.Open(all, config.Calls, states)
	klog.InfoS("Opened node", "workingDirs", o.AllWorkingDirs(), "allowedServices", o.AllowedServices(), "requirePrivacy", o.RequirePrivacy, "readOnly", o.ReadOnly)

	config.Stopping = m.Stopping // also where a pipe fails
	ready = sync.OnceFunc(ready)
	config.Ready = func() {
		m.Ready("serving")
		klog.InfoS("Serving API", "pipes", len(all))
		o.events.write(slog.LevelInfo, eventServing, fmt.Sprintf("CSI Proxy %s serves %d pipes", p.Version, len(all)))
		ready()
	}
	config.InUse = func(err error) {
		m.Waiting("waiting: " + err.Error())
		ready() // the service manager would give up a service that does not start for long
	}
	server, err := serve.Open(ctx, config, all...)
	if err != nil {
		if ctx.Err() != nil {
			klog.InfoS("Stopped CSI-Proxy Server before it had its pipes", "err", err)
			return nil
		}
		return err
	}
	background.Go(func() {
		if err := survey(ctx, n.Groups.SMB); err != nil && ctx.Err() == nil {
			klog.ErrorS(err, "Failed to find links to SMB shares, retrying with the first SMB request")
		}
	})
	err = server.Serve(ctx)
	end()
	endMetrics()
	background.Wait()
	klog.InfoS("Stopped CSI-Proxy Server")
	if err == nil {
		o.events.write(slog.LevelInfo, eventStopped, fmt.Sprintf("CSI Proxy %s stopped", p.Version))
	}
	return err
}

// web is a server of HTTP.
type web struct {
	flag, path              string
	started, waits, stopped string // messages of the log
	serve                   func(context.Context, net.Listener) error
}

// start serves on an address in the background until ctx ends. Without an address it does
// nothing. While the address cannot be used, as where an earlier daemon that is stopping has
// it, it tries again every second: the node must still serve volumes.
func (s web) start(ctx context.Context, background *sync.WaitGroup, o *options, address string) {
	if address == "" {
		return
	}
	listen := func() (l net.Listener, err error) {
		if l, err = net.Listen("tcp", address); err != nil {
			err = fmt.Errorf("flag -%s=%s: %w", s.flag, address, err)
		} else {
			klog.InfoS(s.started, "url", "http://"+l.Addr().String()+s.path)
		}
		o.unserved.Store(s.flag, err)
		return l, err
	}
	l, err := listen()
	background.Go(func() {
		const pause, logInterval = time.Second, 5 * time.Minute
		for logged := (time.Time{}); err != nil; l, err = listen() {
			if time.Since(logged) >= logInterval {
				klog.ErrorS(err, s.waits, "interval", pause)
				logged = time.Now()
			}
			select {
			case <-time.After(pause):
			case <-ctx.Done():
				return
			}
		}
		if err := s.serve(ctx, l); err != nil {
			klog.ErrorS(err, s.stopped)
		}
	})
}

// checkAddress reports why nothing can be served at an address, unless another process has it.
func checkAddress(address string) error {
	if address == "" {
		return nil
	}
	at, err := net.ResolveTCPAddr("tcp", address)
	if err != nil {
		return err
	}
	l, err := net.ListenTCP("tcp", &net.TCPAddr{IP: at.IP, Zone: at.Zone}) // on any free port
	if err != nil {
		return err
	}
	return l.Close()
}

// noLogFile reports why the file or directory of the log has no effect, or nil.
func (o *options) noLogFile() error {
	for flag, value := range map[string]string{"log_file": o.log.File, "log_dir": o.log.Dir} {
		if value != "" && o.log.ToStderr {
			return fmt.Errorf("flag -%s=%s has no effect, because -logtostderr is true: set -logtostderr=false as well", flag, value)
		}
	}
	return nil
}

// problems returns what the process cannot do now.
func (o *options) problems() (found []*admin.Problem) {
	add := func(what string, err error, remedy string) {
		if err != nil {
			found = append(found, &admin.Problem{What: what + ": " + err.Error(), Remedy: remedy})
		}
	}
	add("csi-proxy logs to standard error only", o.noLogFile(), "csi-proxy config check finds such flags before a start")
	add("csi-proxy cannot write its log, which goes to standard error instead", o.logs.Err(), "correct the flag, the rights of the directory or the space on its disk: csi-proxy tries the file again by itself")
	o.unserved.Range(func(_, err any) bool {
		failed, _ := err.(error)
		add("csi-proxy serves the pipes, but not HTTP", failed, "correct the address, and restart csi-proxy, or end the program that has it: csi-proxy tries it again every second")
		return true
	})
	return found
}

// survey makes the SMB service find the links to shares that earlier processes made, if it
// supports that.
func survey(ctx context.Context, s smb.Service) error {
	if s, ok := s.(interface{ Survey(context.Context) error }); ok {
		return s.Survey(ctx)
	}
	return nil
}
