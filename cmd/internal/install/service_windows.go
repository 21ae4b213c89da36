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
	"github.com/kubernetes-csi/csi-proxy/v2/cmd/internal/winsvc"
	"github.com/kubernetes-csi/csi-proxy/v2/internal/apiserver/pipes"
)

const (
	description = "Performs storage operations for CSI drivers of Kubernetes, which run in containers without the rights for them."

	// stopTime is how long a stop may take: running calls finish for up to a minute.
	stopTime = 90 * time.Second
	// serveTime is how long a new process has until it serves all pipes.
	serveTime = 60 * time.Second
	// endTime is how long a process may take to end after its service has stopped.
	endTime = 30 * time.Second
	// pollTime is the time between two looks at the service or a pipe.
	pollTime = 100 * time.Millisecond
)

const (
	programFile = "csi-proxy.exe"
	toolFile    = "csi-proxyctl.exe"
	logDir      = "logs"
)

// openService opens a service, or fails with windows.ERROR_SERVICE_DOES_NOT_EXIST.
func openService(name string) (*mgr.Service, error) {
	m, err := mgr.Connect()
	if err != nil {
		return nil, managerError(err)
	}
	defer m.Disconnect()
	return m.OpenService(name)
}

// find finds the service that a verb is about, and opens it.
func (c *command) find(verb string, changes bool) (i winsvc.Installed, s *mgr.Service, err error) {
	found, err := winsvc.Find()
	if err != nil {
		return i, nil, managerError(err)
	}
	if i, err = choose(verb, c.service, found, changes); err != nil {
		return i, nil, err
	}
	s, err = openService(i.Name)
	return i, s, err
}

func managerError(err error) error {
	if errors.Is(err, windows.ERROR_ACCESS_DENIED) {
		return fmt.Errorf("use the service manager: %w: run this as an administrator, in an elevated console", err)
	}
	return fmt.Errorf("use the service manager: %w", err)
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
	found, err := winsvc.Find()
	if err != nil {
		return exitFailure, managerError(err)
	}
	if len(found) > 0 {
		named := ""
		if !strings.EqualFold(found[0].Name, ServiceName) {
			named = " -service-name=" + found[0].Name
		}
		return exitFailure, fmt.Errorf("there is a service %s already: csi-proxy upgrade%[2]s replaces its program, csi-proxy uninstall%[2]s removes it", found[0].Name, named)
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
		steps = append(steps, step{what: "start the service, and wait until it serves all pipes", do: func() error { return c.startAndAwait(ServiceName, c.pipes) }})
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
			return remove(to)
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
	s, err := openService(ServiceName)
	if err != nil {
		return err
	}
	defer s.Close()
	return errors.Join(stop(s), s.Delete())
}

// stop stops the service, and waits until its process has ended: Windows says before that that the
// service has stopped, and does not delete a program that runs.
func stop(s *mgr.Service) error {
	var process windows.Handle
	var refused error
	asked := false
	err := await(stopTime, func() error {
		status, err := s.Query()
		if err != nil || status.State == svc.Stopped {
			return err
		}
		if process == 0 && status.ProcessId != 0 {
			if process, err = windows.OpenProcess(windows.SYNCHRONIZE, false, status.ProcessId); err != nil {
				process = 0 // it has ended, or another attempt opens it
			}
		}
		if status.State != svc.StopPending && !asked {
			switch _, err := s.Control(svc.Stop); {
			case errors.Is(err, windows.ERROR_SERVICE_CANNOT_ACCEPT_CTRL): // it starts, and takes a stop later
			case err != nil && !errors.Is(err, windows.ERROR_SERVICE_NOT_ACTIVE):
				refused = fmt.Errorf("stop service %s: %w", s.Name, err)
				return nil
			default:
				asked = true
			}
		}
		return fmt.Errorf("service %s has not stopped after %v, and will when its calls have ended, which are in its log: run this again then", s.Name, stopTime)
	})
	err = errors.Join(refused, err)
	if process == 0 {
		return err
	}
	defer windows.CloseHandle(process)
	if err != nil {
		return err
	}
	if event, err := windows.WaitForSingleObject(process, uint32(endTime.Milliseconds())); event != windows.WAIT_OBJECT_0 {
		return fmt.Errorf("service %s has stopped, but its process has not ended after %v (%d, %v)", s.Name, endTime, event, err)
	}
	return nil
}

// remove removes a program, whose process may still be ending.
func remove(path string) error { return await(endTime, func() error { return removeFile(path) }) }

// await calls ok until it succeeds, and returns its last error after the limit.
func await(limit time.Duration, ok func() error) error {
	for deadline := time.Now().Add(limit); ; time.Sleep(pollTime) {
		err := ok()
		if err == nil || time.Now().After(deadline) {
			return err
		}
	}
}

// startAndAwait starts a service, and waits until its process serves pipes.
func (c *command) startAndAwait(name string, pipes []string) error {
	s, err := openService(name)
	if err != nil {
		return err
	}
	defer s.Close()
	// Windows may have restarted it after a failure.
	if err := s.Start(); err != nil && !errors.Is(err, windows.ERROR_SERVICE_ALREADY_RUNNING) {
		return fmt.Errorf("start service %s: %w", name, err)
	}
	_, args, err := programOf(s)
	if err != nil {
		return err
	}
	logFile := logOf(args)
	pid := uint32(0)
	var ended error // it has started, and waiting would not help
	if err := await(serveTime, func() error {
		status, err := s.Query()
		switch {
		case err != nil:
			return err
		case status.State == svc.Stopped:
			ended = fmt.Errorf("service %s stopped with exit code %d; the reason is in its log, %s", name, status.Win32ExitCode, logFile)
			return nil
		case status.State != svc.Running:
			return fmt.Errorf("service %s is not running after %v; the reason may be in its log, %s", name, serveTime, logFile)
		}
		pid = status.ProcessId
		return nil
	}); err != nil || ended != nil {
		return errors.Join(err, ended)
	}
	return await(serveTime, func() error {
		by, err := servedBy(server{pid: pid}, pipes)
		if err == nil && len(by) < len(pipes) {
			err = fmt.Errorf("process %d of the service serves %d of %d pipes", pid, len(by), len(pipes))
		}
		return err
	})
}

// server is a process that may serve pipes: that of a service, 0 if it does not run, or, with a
// program, one that the service has started with it.
type server struct {
	pid     uint32
	program string
}

// servedBy returns which of the pipes a process serves, and an error if another process
// serves one.
func servedBy(own server, paths []string) (by []string, err error) {
	for _, path := range paths {
		pid, image, err := pipes.ServerOf(path)
		switch {
		case errors.Is(err, windows.ERROR_FILE_NOT_FOUND):
			// Not served.
		case errors.Is(err, windows.ERROR_PIPE_BUSY) && own.pid != 0:
			// Served, and all of its instances are taken; by whom cannot be seen.
			by = append(by, path)
		case err != nil:
			return by, fmt.Errorf("look who serves %s: %w", path, err)
		case pid != own.pid && (own.pid == 0 || own.program == "" || !strings.EqualFold(image, own.program)):
			return by, fmt.Errorf("%s is served by process %d (%s)", path, pid, image)
		default:
			by = append(by, path)
		}
	}
	return by, nil
}

// pipesAreFree fails if a process other than pid serves a pipe.
func (c *command) pipesAreFree(pid uint32) error {
	if _, err := servedBy(server{pid: pid}, c.pipes); err != nil {
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
		return config{}, fmt.Errorf("read the configuration of service %s: %w", s.Name, err)
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

// logOf returns the log file of a service with these arguments, or says that there is none.
func logOf(args []string) string {
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
	i, s, err := c.find("upgrade", true)
	if errors.Is(err, errNone) {
		return exitFailure, fmt.Errorf("there is no service %s: csi-proxy install makes it", ServiceName)
	}
	if err != nil {
		return exitFailure, err
	}
	defer s.Close()
	if i.Manager != "" {
		return exitFailure, fmt.Errorf("service %s runs %s, which starts %s; nothing was changed: stop the service, replace that file by this program, and start the service", i.Name, i.Manager, i.Program)
	}
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
		return exitFailure, fmt.Errorf("the program of service %s, %s, is not a file; nothing was changed: give its command line the full path, in quotes if it has blanks (sc.exe qc %[1]s shows it)", s.Name, exe)
	}
	if !winsvc.Asked(args) {
		return exitFailure, fmt.Errorf("service %s runs %s without -windows-service, so that is not csi-proxy; nothing was changed: uninstall the service, and install csi-proxy", s.Name, exe)
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
	before, err := servedBy(server{pid: status.ProcessId}, c.pipes)
	if err != nil {
		return exitFailure, err
	}
	stopped := status.State == svc.Stopped
	running := !stopped || cutOff
	if stopped && cutOff {
		fmt.Fprintf(c.out, "service %s is stopped, and an upgrade was cut off: this one starts it\n", s.Name)
	}
	steps := []step{
		{
			what: fmt.Sprintf("copy %s to %s", self, next),
			do:   func() error { return copyFile(self, next) },
			undo: func() error { return remove(next) },
		},
		{
			what: fmt.Sprintf("stop service %s, after the calls that it runs", s.Name),
			do:   func() error { return stop(s) },
			undo: func() error {
				if !running {
					return nil
				}
				return c.startAndAwait(s.Name, before)
			},
		},
		{
			what: fmt.Sprintf("keep %s as %s", exe, old),
			do: func() error {
				// What an upgrade has left that was cut off may never have served.
				if stopped && exists(old) {
					return remove(exe)
				}
				return windows.Rename(exe, old)
			},
			undo: func() error { return windows.Rename(old, exe) },
		},
		{
			what: fmt.Sprintf("rename %s to %s", next, exe),
			do:   func() error { return windows.Rename(next, exe) },
			undo: func() error { return windows.Rename(exe, next) }, // its process may still be ending
		},
	}
	if running {
		steps = append(steps, step{
			what: "start the service, and wait until it serves all pipes",
			do: func() error {
				err := c.startAndAwait(s.Name, c.pipes)
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
		return exitFailure, fmt.Errorf("service %s runs version %s, but: %w", s.Name, c.program.Version, err)
	}
	switch {
	case c.dryRun:
	case running:
		fmt.Fprintf(c.out, "service %s runs version %s\n", s.Name, c.program.Version)
	default:
		fmt.Fprintf(c.out, "service %s has version %s, and is stopped as before: sc.exe start %[1]s\n", s.Name, c.program.Version)
	}
	return exitOK, nil
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
	i, s, err := c.find("uninstall", true)
	if errors.Is(err, errNone) {
		fmt.Fprintf(c.out, "there is no service %s\n", ServiceName)
		return exitOK, nil
	}
	if err != nil {
		return exitFailure, err
	}
	defer s.Close()
	err = c.run([]step{
		{what: fmt.Sprintf("stop service %s, after the calls that it runs", s.Name), do: func() error { return stop(s) }},
		{what: "delete service " + s.Name, do: s.Delete},
		{what: "remove event source " + s.Name, do: func() error {
			if err := eventlog.Remove(s.Name); err != nil && !errors.Is(err, windows.ERROR_FILE_NOT_FOUND) {
				return err
			}
			return nil
		}},
	})
	if err != nil {
		return exitFailure, err
	}
	if !c.dryRun {
		fmt.Fprintf(c.out, "left the program, %s, and its log, %s\n", i.Program, logOf(i.Args))
	}
	return exitOK, nil
}

func (c *command) status() (int, error) {
	i, s, err := c.find("status", false)
	if errors.Is(err, errNone) {
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
	// Of a service of another version, this program may not know all flags.
	pipes, settingsErr := c.program.Pipes(i.Args)
	if settingsErr == nil {
		c.pipes = pipes
	}
	own := server{pid: status.ProcessId}
	if i.Manager != "" {
		own.program = i.Program
	}
	by, servedErr := servedBy(own, c.pipes)
	fmt.Fprintf(c.out, "service   %s, %s, process %d\n", s.Name, stateName(status.State), status.ProcessId)
	fmt.Fprintf(c.out, "account   %s\n", config.account)
	fmt.Fprintf(c.out, "start     %s\n", config.start)
	fmt.Fprintf(c.out, "failure   %s\n", failure)
	fmt.Fprintf(c.out, "command   %s\n", config.command)
	if i.Manager != "" {
		fmt.Fprintf(c.out, "program   %s, which that starts\n", i.Program)
	}
	fmt.Fprintf(c.out, "log       %s\n", logOf(i.Args))
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
