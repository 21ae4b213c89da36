package install

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"
	"unsafe"

	"golang.org/x/sys/windows"
	"golang.org/x/sys/windows/svc"
	"golang.org/x/sys/windows/svc/eventlog"
	"golang.org/x/sys/windows/svc/mgr"

	"github.com/kubernetes-csi/csi-proxy/v2/cmd/internal/admindir"
	"github.com/kubernetes-csi/csi-proxy/v2/internal/apiserver/pipes"
)

const (
	description = "Performs storage operations for CSI drivers of Kubernetes, which run in containers without the rights for them."

	// stopTime is how long a stop may take: running calls finish for up to a minute.
	stopTime = 90 * time.Second
	// serveTime is how long a new process has until it serves all pipes.
	serveTime = 60 * time.Second
	// pollTime is the time between two looks at the service or a pipe.
	pollTime = 100 * time.Millisecond
)

const (
	programFile = "csi-proxy.exe"
	toolFile    = "csi-proxyctl.exe"
	logDir      = "logs"
)

// openService opens the service, or fails with windows.ERROR_SERVICE_DOES_NOT_EXIST.
func openService() (*mgr.Service, error) {
	m, err := mgr.Connect()
	if err != nil {
		return nil, managerError(err)
	}
	defer m.Disconnect()
	return m.OpenService(ServiceName)
}

func managerError(err error) error {
	if errors.Is(err, windows.ERROR_ACCESS_DENIED) {
		return fmt.Errorf("connect to the service manager: %w: run this as an administrator, in an elevated console", err)
	}
	return fmt.Errorf("connect to the service manager: %w", err)
}

func (c *command) install() (int, error) {
	self, err := os.Executable()
	if err != nil {
		return exitFailure, err
	}
	if c.dir == "" {
		files := os.Getenv("ProgramFiles")
		if files == "" {
			return exitFailure, errors.New("the environment has no ProgramFiles: give -dir")
		}
		c.dir = filepath.Join(files, "csi-proxy")
	}
	if !filepath.IsAbs(c.dir) || strings.ContainsAny(c.dir, `"%`) {
		return exitUsage, fmt.Errorf(`flag -dir=%s: want an absolute path such as C:\csi-proxy, without " and %%`, c.dir)
	}
	s, err := openService()
	if err == nil {
		s.Close()
		return exitFailure, fmt.Errorf("there is a service %s already: csi-proxy upgrade replaces its program, csi-proxy uninstall removes it", ServiceName)
	}
	if !errors.Is(err, windows.ERROR_SERVICE_DOES_NOT_EXIST) {
		return exitFailure, err
	}
	config := configFlag(c.flags)
	if err := place(c.dir, config); err != nil {
		return exitFailure, err
	}
	if err := c.pipesAreFree(0); err != nil {
		return exitFailure, err
	}

	exe, logs := filepath.Join(c.dir, programFile), filepath.Join(c.dir, logDir)
	args := append([]string{"-windows-service", "-log_file=" + filepath.Join(logs, "csi-proxy.log"), "-logtostderr=false"}, c.flags...)
	var steps []step
	for _, dir := range append(missingDirs(c.dir), c.dir, logs) {
		steps = append(steps, c.dirStep(dir))
	}
	if config != "" && same(filepath.Dir(config), c.dir) {
		steps = append(steps, step{what: fmt.Sprintf("give only administrators access to %s", config), do: func() error { return secureFile(config) }})
	}
	steps = append(steps, copyStep(self, exe))
	tool := filepath.Join(filepath.Dir(self), toolFile)
	if _, err := os.Stat(tool); err == nil {
		steps = append(steps, copyStep(tool, filepath.Join(c.dir, toolFile)))
	}
	for _, left := range leftovers(exe) { // the next upgrade would take it for its own
		if exists(left) {
			steps = append(steps, step{what: "remove " + left, do: func() error { return removeFile(left) }})
		}
	}
	steps = append(steps,
		step{
			what: fmt.Sprintf("create service %s (%s): %s", ServiceName, c.start, commandLine(exe, args)),
			do:   func() error { return c.create(exe, args) },
			undo: deleteService,
		},
		step{
			what: "add event source " + ServiceName,
			do: func() error {
				err := eventlog.InstallAsEventCreate(ServiceName, eventlog.Error|eventlog.Warning|eventlog.Info)
				if err != nil && strings.Contains(err.Error(), "already exists") {
					return nil // of an installation before
				}
				return err
			},
			undo: func() error { return eventlog.Remove(ServiceName) },
		})
	if !c.noStart {
		steps = append(steps, step{what: "start the service, and wait until it serves all pipes", do: func() error { return c.startAndAwait(c.pipes) }})
	}
	return code(c.run(steps))
}

// dirStep makes a directory for administrators.
func (c *command) dirStep(path string) step {
	made := false
	return step{
		what: fmt.Sprintf("make directory %s, for administrators only", path),
		do:   func() (err error) { made, err = admindir.Make(path); return err },
		undo: func() error {
			if !made {
				return nil
			}
			return os.Remove(path) // it fails, and says so, if others have put something there
		},
	}
}

// copyStep copies a program, unless it is there. A program of the same content is replaced by
// the copy: an uninstalled service has left it, or someone else has put it there.
func copyStep(from, to string) step {
	added := false
	return step{
		what: fmt.Sprintf("copy %s to %s", from, to),
		do: func() error {
			if same(from, to) {
				return secureFile(to)
			}
			if exists(to) && !equal(from, to) {
				return fmt.Errorf("%s exists, and is another version: remove it, or install to another directory with -dir", to)
			}
			added = !exists(to)
			return copyFile(from, to)
		},
		undo: func() error {
			if !added {
				return nil
			}
			return removeFile(to)
		},
	}
}

// commandLine returns the command line of the service. The path has quotes even without
// blanks in it.
func commandLine(exe string, args []string) string {
	line := `"` + exe + `"`
	for _, a := range args {
		line += " " + windows.EscapeArg(a)
	}
	return line
}

// create creates the service with all of its settings.
func (c *command) create(exe string, args []string) (err error) {
	m, err := mgr.Connect()
	if err != nil {
		return managerError(err)
	}
	defer m.Disconnect()
	start := uint32(windows.SERVICE_AUTO_START)
	if c.start == startDemand {
		start = windows.SERVICE_DEMAND_START
	}
	// mgr.CreateService would leave out the quotes of a path without blanks.
	h, err := windows.CreateService(m.Handle, utf16(ServiceName), utf16("CSI Proxy"), windows.SERVICE_ALL_ACCESS,
		windows.SERVICE_WIN32_OWN_PROCESS, start, windows.SERVICE_ERROR_NORMAL, utf16(commandLine(exe, args)), nil, nil, nil, nil, nil)
	if err != nil {
		return err
	}
	s := &mgr.Service{Name: ServiceName, Handle: h}
	defer func() {
		if err != nil {
			err = errors.Join(err, s.Delete())
		}
		err = errors.Join(err, s.Close())
	}()
	text := windows.SERVICE_DESCRIPTION{Description: utf16(description)}
	if err := windows.ChangeServiceConfig2(h, windows.SERVICE_CONFIG_DESCRIPTION, (*byte)(unsafe.Pointer(&text))); err != nil {
		return fmt.Errorf("set the description: %w", err)
	}
	if c.start == startDelayed {
		delayed := windows.SERVICE_DELAYED_AUTO_START_INFO{IsDelayedAutoStartUp: 1}
		if err := windows.ChangeServiceConfig2(h, windows.SERVICE_CONFIG_DELAYED_AUTO_START_INFO, (*byte)(unsafe.Pointer(&delayed))); err != nil {
			return fmt.Errorf("delay the start: %w", err)
		}
	}
	restart := mgr.RecoveryAction{Type: mgr.ServiceRestart, Delay: 10 * time.Second}
	if err := s.SetRecoveryActions([]mgr.RecoveryAction{restart, restart, restart}, uint32((24 * time.Hour).Seconds())); err != nil {
		return fmt.Errorf("set the restart after a failure: %w", err)
	}
	// csi-proxy itself does not need this setting: a failed process ends without reporting
	// a stop (package winsvc).
	if err := s.SetRecoveryActionsOnNonCrashFailures(true); err != nil && !c.lacks("the restart after an exit with an error", err) {
		return fmt.Errorf("set the restart after an exit with an error: %w", err)
	}
	return nil
}

// lacks reports whether an error says that this Windows does not have a setting, as Wine
// does not have some, and says so.
func (c *command) lacks(setting string, err error) bool {
	if !errors.Is(err, windows.ERROR_INVALID_LEVEL) {
		return false
	}
	fmt.Fprintf(c.out, "this Windows has no setting for %s\n", setting)
	return true
}

// utf16 converts a text without NUL, as those of a command line are.
func utf16(s string) *uint16 { return windows.StringToUTF16Ptr(s) }

func deleteService() error {
	s, err := openService()
	if err != nil {
		return err
	}
	defer s.Close()
	return errors.Join(stop(s), s.Delete())
}

// stop stops the service and waits until it has stopped.
func stop(s *mgr.Service) error {
	status, err := s.Query()
	if err != nil {
		return err
	}
	if status.State == svc.Stopped {
		return nil
	}
	if status.State != svc.StopPending {
		if _, err := s.Control(svc.Stop); err != nil && !errors.Is(err, windows.ERROR_SERVICE_NOT_ACTIVE) {
			return fmt.Errorf("stop service %s: %w", ServiceName, err)
		}
	}
	return await(stopTime, func() error {
		status, err := s.Query()
		if err == nil && status.State != svc.Stopped {
			err = fmt.Errorf("service %s has not stopped after %v, and will when its calls have ended, which are in its log: run this again then", ServiceName, stopTime)
		}
		return err
	})
}

// await calls ok until it succeeds, and returns its last error after the limit.
func await(limit time.Duration, ok func() error) error {
	for deadline := time.Now().Add(limit); ; time.Sleep(pollTime) {
		err := ok()
		if err == nil || time.Now().After(deadline) {
			return err
		}
	}
}

// startAndAwait starts the service, and waits until its process serves pipes.
func (c *command) startAndAwait(pipes []string) error {
	s, err := openService()
	if err != nil {
		return err
	}
	defer s.Close()
	// Windows may have restarted it after a failure.
	if err := s.Start(); err != nil && !errors.Is(err, windows.ERROR_SERVICE_ALREADY_RUNNING) {
		return fmt.Errorf("start service %s: %w", ServiceName, err)
	}
	pid := uint32(0)
	if err := await(serveTime, func() error {
		status, err := s.Query()
		switch {
		case err != nil:
			return err
		case status.State == svc.Stopped:
			return fmt.Errorf("service %s stopped with exit code %d; the reason is in its log, %s", ServiceName, status.Win32ExitCode, logOf(s))
		case status.State != svc.Running:
			return fmt.Errorf("service %s is not running after %v; the reason may be in its log, %s", ServiceName, serveTime, logOf(s))
		}
		pid = status.ProcessId
		return nil
	}); err != nil {
		return err
	}
	return await(serveTime, func() error {
		by, err := servedBy(pid, pipes)
		if err == nil && len(by) < len(pipes) {
			err = fmt.Errorf("process %d of the service serves %d of %d pipes", pid, len(by), len(pipes))
		}
		return err
	})
}

// servedBy returns which of the pipes a process serves, and an error if another process
// serves one.
func servedBy(pid uint32, paths []string) (by []string, err error) {
	for _, path := range paths {
		server, image, err := pipes.ServerOf(path)
		switch {
		case errors.Is(err, windows.ERROR_FILE_NOT_FOUND):
			// Not served.
		case errors.Is(err, windows.ERROR_PIPE_BUSY) && pid != 0:
			// Served, and all of its instances are taken; by whom cannot be seen.
			by = append(by, path)
		case err != nil:
			return by, fmt.Errorf("look who serves %s: %w", path, err)
		case server != pid:
			return by, fmt.Errorf("%s is served by process %d (%s)", path, server, image)
		default:
			by = append(by, path)
		}
	}
	return by, nil
}

// pipesAreFree fails if a process other than pid serves a pipe.
func (c *command) pipesAreFree(pid uint32) error {
	if _, err := servedBy(pid, c.pipes); err != nil {
		return fmt.Errorf("%w: stop that one first, perhaps another CSI Proxy, a service or a DaemonSet; nothing was changed", err)
	}
	return nil
}

// config is how a service is set up.
type config struct{ command, account, start string }

// configOf reads the configuration of the service. mgr.Service.Config reads settings that
// not every Windows has, and fails without them.
func configOf(s *mgr.Service) (config, error) {
	const largest = 8 << 10 // bytes, by QueryServiceConfig's page
	buf := make([]byte, largest)
	c := (*windows.QUERY_SERVICE_CONFIG)(unsafe.Pointer(&buf[0]))
	var needed uint32
	if err := windows.QueryServiceConfig(s.Handle, c, uint32(len(buf)), &needed); err != nil {
		return config{}, fmt.Errorf("read the configuration of service %s: %w", ServiceName, err)
	}
	out := config{command: windows.UTF16PtrToString(c.BinaryPathName), account: windows.UTF16PtrToString(c.ServiceStartName)}
	switch c.StartType {
	case windows.SERVICE_AUTO_START:
		out.start = startAuto
	case windows.SERVICE_DEMAND_START:
		out.start = startDemand
	case windows.SERVICE_DISABLED:
		out.start = "disabled"
	default:
		out.start = fmt.Sprintf("type %d", c.StartType)
	}
	var delayed windows.SERVICE_DELAYED_AUTO_START_INFO
	err := windows.QueryServiceConfig2(s.Handle, windows.SERVICE_CONFIG_DELAYED_AUTO_START_INFO, (*byte)(unsafe.Pointer(&delayed)), uint32(unsafe.Sizeof(delayed)), &needed)
	if err == nil && delayed.IsDelayedAutoStartUp != 0 && out.start == startAuto {
		out.start = startDelayed
	}
	return out, nil
}

// programOf returns the program of the service and its arguments.
func programOf(s *mgr.Service) (exe string, args []string, err error) {
	c, err := configOf(s)
	if err != nil {
		return "", nil, err
	}
	all, err := windows.DecomposeCommandLine(c.command)
	if err != nil || len(all) == 0 {
		return "", nil, fmt.Errorf("command line %q of the service: want a program and its flags (%v)", c.command, err)
	}
	return all[0], all[1:], nil
}

// logOf returns the service's log file, or says that there is none.
func logOf(s *mgr.Service) string {
	_, args, err := programOf(s)
	if err != nil {
		return err.Error()
	}
	for i, a := range slices.Backward(args) {
		name, value, ok := strings.Cut(strings.TrimLeft(a, "-"), "=")
		if name != "log_file" {
			continue
		}
		if ok {
			return value
		}
		if i+1 < len(args) {
			return args[i+1]
		}
	}
	return "which it does not have: it has no flag -log_file"
}

func (c *command) upgrade() (int, error) {
	self, err := os.Executable()
	if err != nil {
		return exitFailure, err
	}
	s, err := openService()
	if errors.Is(err, windows.ERROR_SERVICE_DOES_NOT_EXIST) {
		return exitFailure, fmt.Errorf("there is no service %s: csi-proxy install makes it", ServiceName)
	}
	if err != nil {
		return exitFailure, err
	}
	defer s.Close()
	exe, args, err := programOf(s)
	if err != nil {
		return exitFailure, err
	}
	if same(self, exe) {
		return exitFailure, fmt.Errorf("this is the program of the service, %s: run upgrade of the new csi-proxy.exe, from another directory", exe)
	}
	// An upgrade that was cut off leaves one of these, and perhaps a service that is stopped.
	old, next := exe+oldSuffix, exe+newSuffix
	cutOff := exists(old) || exists(next)
	if !filepath.IsAbs(exe) || !exists(exe) && !exists(old) {
		return exitFailure, fmt.Errorf("the program of service %s, %s, is not a file; nothing was changed: give its command line the full path, in quotes if it has blanks (sc.exe qc %[1]s shows it)", ServiceName, exe)
	}
	if !asService(args) {
		return exitFailure, fmt.Errorf("service %s runs %s without -windows-service, so that is not csi-proxy; nothing was changed: uninstall the service, and install csi-proxy", ServiceName, exe)
	}
	if c.pipes, err = c.program.Pipes(args); err != nil {
		return exitFailure, fmt.Errorf("this version does not accept the flags of the service, which was not changed: %w", err)
	}
	status, err := s.Query()
	if err != nil {
		return exitFailure, err
	}
	if err := c.pipesAreFree(status.ProcessId); err != nil {
		return exitFailure, err
	}
	// An old version may serve fewer pipes than this one.
	before, err := servedBy(status.ProcessId, c.pipes)
	if err != nil {
		return exitFailure, err
	}
	stopped := status.State == svc.Stopped
	running := !stopped || cutOff
	if stopped && cutOff {
		fmt.Fprintf(c.out, "service %s is stopped, and an upgrade was cut off: this one starts it\n", ServiceName)
	}
	steps := []step{
		{
			what: fmt.Sprintf("copy %s to %s", self, next),
			do:   func() error { return copyFile(self, next) },
			undo: func() error { return removeFile(next) },
		},
		{
			what: fmt.Sprintf("stop service %s, after the calls that it runs", ServiceName),
			do:   func() error { return stop(s) },
			undo: func() error {
				if !running {
					return nil
				}
				return c.startAndAwait(before)
			},
		},
		{
			what: fmt.Sprintf("keep %s as %s", exe, old),
			do: func() error {
				// What an upgrade has left that was cut off may never have served.
				if stopped && exists(old) {
					return removeFile(exe)
				}
				return windows.Rename(exe, old)
			},
			undo: func() error { return windows.Rename(old, exe) },
		},
		{
			what: fmt.Sprintf("rename %s to %s", next, exe),
			do:   func() error { return windows.Rename(next, exe) },
			undo: func() error { return removeFile(exe) },
		},
	}
	if running {
		steps = append(steps, step{
			what: "start the service, and wait until it serves all pipes",
			do: func() error {
				err := c.startAndAwait(c.pipes)
				if err != nil {
					err = errors.Join(err, stop(s)) // its program is about to be replaced
				}
				return err
			},
		})
	}
	if err := c.run(steps); err != nil {
		return exitFailure, err
	}
	// From here on the new version serves, and what fails does not bring the old one back.
	if err := c.run(append(c.toolSteps(self, filepath.Dir(exe)), step{what: "remove " + old, do: func() error { return removeFile(old) }})); err != nil {
		return exitFailure, fmt.Errorf("service %s runs version %s, but: %w", ServiceName, c.program.Version, err)
	}
	switch {
	case c.dryRun:
	case running:
		fmt.Fprintf(c.out, "service %s runs version %s\n", ServiceName, c.program.Version)
	default:
		fmt.Fprintf(c.out, "service %s has version %s, and is stopped as before: sc.exe start %[1]s\n", ServiceName, c.program.Version)
	}
	return exitOK, nil
}

// asService reports whether the flags of a service make csi-proxy one. Others run another
// program under its name, or csi-proxy through another program.
func asService(args []string) bool {
	is := false
	for _, a := range args {
		name, value, given := strings.Cut(strings.TrimPrefix(strings.TrimPrefix(a, "-"), "-"), "=")
		if name == "windows-service" && name != a {
			is = !given || value == "true"
		}
	}
	return is
}

// toolSteps replaces csi-proxyctl.exe beside the service's program, if both places have
// it.
func (c *command) toolSteps(self, dir string) []step {
	from, to := filepath.Join(filepath.Dir(self), toolFile), filepath.Join(dir, toolFile)
	if _, err := os.Stat(from); err != nil {
		return nil
	}
	if _, err := os.Stat(to); err != nil {
		return nil
	}
	return []step{{what: fmt.Sprintf("copy %s to %s", from, to), do: func() error { return copyFile(from, to) }}}
}

func (c *command) uninstall() (int, error) {
	s, err := openService()
	if errors.Is(err, windows.ERROR_SERVICE_DOES_NOT_EXIST) {
		fmt.Fprintf(c.out, "there is no service %s\n", ServiceName)
		return exitOK, nil
	}
	if err != nil {
		return exitFailure, err
	}
	defer s.Close()
	exe, _, err := programOf(s)
	if err != nil {
		return exitFailure, err
	}
	log := logOf(s)
	err = c.run([]step{
		{what: fmt.Sprintf("stop service %s, after the calls that it runs", ServiceName), do: func() error { return stop(s) }},
		{what: "delete service " + ServiceName, do: s.Delete},
		{what: "remove event source " + ServiceName, do: func() error {
			if err := eventlog.Remove(ServiceName); err != nil && !errors.Is(err, windows.ERROR_FILE_NOT_FOUND) {
				return err
			}
			return nil
		}},
	})
	if err != nil {
		return exitFailure, err
	}
	if !c.dryRun {
		fmt.Fprintf(c.out, "left the program, %s, and its log, %s\n", exe, log)
	}
	return exitOK, nil
}

func (c *command) status() (int, error) {
	s, err := openService()
	if errors.Is(err, windows.ERROR_SERVICE_DOES_NOT_EXIST) {
		fmt.Fprintf(c.out, "service   %s is not installed\n", ServiceName)
		return exitNotInstalled, nil
	}
	if err != nil {
		return exitFailure, err
	}
	defer s.Close()
	status, err := s.Query()
	if err != nil {
		return exitFailure, err
	}
	config, err := configOf(s)
	if err != nil {
		return exitFailure, err
	}
	failure := "restarts after a crash alone"
	switch restarts, err := s.RecoveryActionsOnNonCrashFailures(); {
	case errors.Is(err, windows.ERROR_INVALID_LEVEL):
		failure = "restarts after a crash; this Windows has no setting for an exit with an error"
	case err != nil:
		return exitFailure, err
	case restarts:
		failure = "restarts after a crash and after an exit with an error"
	}
	_, args, err := programOf(s)
	if err != nil {
		return exitFailure, err
	}
	// Of a service of another version, this program may not know all flags.
	pipes, settingsErr := c.program.Pipes(args)
	if settingsErr == nil {
		c.pipes = pipes
	}
	by, servedErr := servedBy(status.ProcessId, c.pipes)
	fmt.Fprintf(c.out, "service   %s, %s, process %d\n", ServiceName, stateName(status.State), status.ProcessId)
	fmt.Fprintf(c.out, "account   %s\n", config.account)
	fmt.Fprintf(c.out, "start     %s\n", config.start)
	fmt.Fprintf(c.out, "failure   %s\n", failure)
	fmt.Fprintf(c.out, "command   %s\n", config.command)
	fmt.Fprintf(c.out, "log       %s\n", logOf(s))
	if settingsErr != nil {
		fmt.Fprintf(c.out, "settings  version %s does not accept them: %v\n", c.program.Version, settingsErr)
	}
	fmt.Fprintf(c.out, "pipes     %d of %d are served by the service\n", len(by), len(c.pipes))
	if servedErr != nil {
		if status.State == svc.Running {
			fmt.Fprintln(c.out, "waiting   the service serves all pipes as soon as no other process serves one")
		}
		return exitNotServing, errors.Join(servedErr, settingsErr)
	}
	if settingsErr != nil {
		return exitNotServing, fmt.Errorf("flags of the service: %w: correct them before the service starts again; csi-proxy config check shows what a file would do", settingsErr)
	}
	if status.State != svc.Running || len(by) < len(c.pipes) {
		return exitNotServing, nil
	}
	return exitOK, nil
}

func stateName(s svc.State) string {
	names := map[svc.State]string{
		svc.Stopped: "stopped", svc.StartPending: "starting", svc.StopPending: "stopping", svc.Running: "running",
		svc.ContinuePending: "continuing", svc.PausePending: "pausing", svc.Paused: "paused",
	}
	if name, ok := names[s]; ok {
		return name
	}
	return fmt.Sprintf("in state %d", s)
}

// code returns the exit code of a verb that fails with 1.
func code(err error) (int, error) {
	if err != nil {
		return exitFailure, err
	}
	return exitOK, nil
}
