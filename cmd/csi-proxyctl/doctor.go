package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"runtime"
	"slices"
	"strings"
	"sync"

	"github.com/spf13/cobra"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	filesystemv1 "github.com/kubernetes-csi/csi-proxy/client/api/filesystem/v1"
	systemv1alpha1 "github.com/kubernetes-csi/csi-proxy/client/api/system/v1alpha1"
	"github.com/kubernetes-csi/csi-proxy/client/pipe"
	"github.com/kubernetes-csi/csi-proxy/v2/cmd/internal/winsvc"
	"github.com/kubernetes-csi/csi-proxy/v2/internal/admin"
	"github.com/kubernetes-csi/csi-proxy/v2/internal/apiserver/pipes"
)

// finding is a result of a check.
type finding struct {
	Result string `json:"result"`
	Check  string `json:"check"`
	What   string `json:"what"`
	Hint   string `json:"hint"`
}

// theService returns the Windows service that runs csi-proxy, or the usual name alone if there is none.
// err names them if there are several.
func theService() (s winsvc.Installed, err error) {
	found, err := winsvc.Find()
	if err != nil || len(found) == 0 {
		return winsvc.Installed{Name: winsvc.Name}, err
	}
	if len(found) > 1 {
		err = &severalServices{found}
	}
	return found[0], err
}

// logsOf returns the log files or directories of a service.
func logsOf(s winsvc.Installed) []string { return arguments(s.Args, "log_file", "log_dir") }

type severalServices struct{ found []winsvc.Installed }

func (s *severalServices) Error() string {
	var all []string
	for _, i := range s.found {
		all = append(all, i.String())
	}
	return "several services run csi-proxy, and only one can serve: " + strings.Join(all, ", ")
}

// examineServices checks the Windows service that runs csi-proxy. paths are the pipes that exist.
func examineServices(paths []string) []finding {
	service, err := theService()
	if several := (*severalServices)(nil); errors.As(err, &several) {
		return []finding{{resultProblem, "install", err.Error(), "keep one, and remove each other one: csi-proxy uninstall -service-name=NAME"}}
	}
	if err != nil {
		return checkFailed("install", err)
	}
	return slices.Concat(examineServer(service, paths), examineInstall(service), examineLogs(logsOf(service)))
}

func (a *app) doctorCommand() *cobra.Command {
	kubelet := `C:\var\lib\kubelet`
	c := &cobra.Command{
		Use:   "doctor",
		Short: "Find problems of the node and suggest what to do",
		Long: `Find problems of the node and suggest what to do. It changes nothing. The checks:

  pipes    csi-proxy serves every version, and this account has access
  versions all pipes are served by one build, of the same release as csi-proxyctl
  kubelet  the kubelet's directory exists and is a working directory, and none is a whole
           drive or a directory of Windows
  disks    all disks are online and writable, none is a copy of another one, and those
           without a volume are blank
  volumes  the mounted volumes work, are less than 95% full, and use all of their disks
  links    the links and mount points of volumes below the kubelet's directory lead to a
           volume, a directory or a mapped share
  calls    no call hangs, and none waits because its pipe is overloaded
  smb      every SMB mapping works and is used by a link
  iscsi    the service MSiSCSI is running, and volumes of the targets are mounted
  install  the Windows service does not wait for another process that serves the pipes, starts
           with Windows and after a failure, and only administrators may change its program,
           configuration file and log, which is not too large; it did not crash within a day
  windows  the version of Windows is a supported one

It makes a health check of each pipe and some ten calls, however many disks there are, and
reads a few MiB of at most eight disks without a volume. It does not contact SMB servers or
iSCSI targets.

The exit code is 3 if there are problems, 1 if there are none and something is unknown,
because it could not be checked, and 0 otherwise.`,
		Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error { return a.examine(c.Context(), kubelet) },
	}
	c.Flags().StringVar(&kubelet, "kubelet-path", kubelet, "the kubelet's `directory`")
	return a.watchable(c)
}

// examine makes all checks and prints their findings.
func (a *app) examine(ctx context.Context, kubelet string) error {
	probes := a.probes(ctx)
	var paths, servedAt []string
	for _, p := range probes {
		if p.state != absent {
			paths = append(paths, p.pipe())
		}
		if p.state == served {
			servedAt = append(servedAt, p.pipe())
		}
	}
	found := examinePipes(probes, version, ownersOf(servedAt, pipes.ServerOf))
	if slices.ContainsFunc(probes, func(p probed) bool { return p.state == served }) {
		var ofKubelet, ofNode []finding
		var group sync.WaitGroup
		group.Go(func() { ofKubelet = a.examineKubelet(ctx, kubelet) })
		group.Go(func() { ofNode = a.examineNode(ctx) })
		group.Wait()
		found = slices.Concat(found, examineBuilds(probes, version), ofKubelet, ofNode)
	}
	found = slices.Concat(found, examineServices(paths), examineWindows())
	found = grouped(found)
	if err := a.printFindings(found); err != nil {
		return err
	}
	worst := resultOK
	for _, f := range found {
		if worse(f.Result, worst) {
			worst = f.Result
		}
	}
	return failureOf(worst)
}

// grouped puts the findings of a check together.
func grouped(found []finding) []finding {
	var checks []string
	by := map[string][]finding{}
	for _, f := range found {
		if by[f.Check] == nil {
			checks = append(checks, f.Check)
		}
		by[f.Check] = append(by[f.Check], f)
	}
	var all []finding
	for _, check := range checks {
		all = append(all, by[check]...)
	}
	return all
}

// printFindings prints a line for each finding, followed by its hint.
func (a *app) printFindings(found []finding) error {
	if a.output != formatTable {
		return a.printValue(found)
	}
	wide := 0
	for _, f := range found {
		wide = max(wide, len(f.Check))
	}
	for _, f := range found {
		if err := a.line("%-7s  %-*s  %s", f.Result, wide, f.Check, f.What); err != nil {
			return err
		}
		if f.Hint == "" {
			continue
		}
		if err := a.line("%-7s  %-*s  > %s", "", wide, "", f.Hint); err != nil {
			return err
		}
	}
	return nil
}

// checkFailed returns the finding for a check that could not be made. That a pipe is not served
// may be intended: the check of pipes knows.
func checkFailed(check string, err error) []finding {
	text, hint := explain(err)
	if errors.Is(err, fs.ErrNotExist) {
		return []finding{{resultNote, check, "not checked: " + text, "csi-proxyctl versions shows which versions of the API are served"}}
	}
	return []finding{{resultUnknown, check, "not checked: " + text, cmp.Or(hint, "csi-proxyctl calls shows what csi-proxy does now; its log has the reason")}}
}

// examinePipes checks which pipes respond. A csi-proxy of the same release as this command
// has all of them; another release may have fewer.
// owners are the processes that serve pipes, if they are known: if another process serves one
// pipe, csi-proxy cannot serve the others.
func examinePipes(pipes []probed, own string, owners []pipeOwner) []finding {
	by := map[pipeState][]string{}
	for _, p := range pipes {
		by[p.state] = append(by[p.state], p.String())
	}
	service, _ := theService() // examineServices reports the errors
	start := startHint(runtime.GOOS, service.Name, logsOf(service))
	switch left := len(by[stale]); len(pipes) {
	case len(by[absent]):
		return []finding{{resultProblem, "pipes", "csi-proxy is not running: no pipe exists", start}}
	case len(by[absent]) + left:
		return []finding{{resultProblem, "pipes", "csi-proxy was killed: " + plural(left, "its socket is left, and does not answer", "all its %d sockets are left, and none answers"), start}}
	}
	if silent(pipes) {
		return []finding{{resultProblem, "pipes", noAnswer, "look at its log, and restart it: " + restart(runtime.GOOS) + "; a format that runs in it is cut off"}}
	}
	found := []finding{}
	if n := len(by[served]); n > 0 {
		found = append(found, finding{resultOK, "pipes", fmt.Sprintf("%d of %d versions of the API are served", n, len(pipes)), ""})
	}
	var disabled []string
	by[absent] = slices.DeleteFunc(by[absent], func(name string) bool {
		at := slices.IndexFunc(pipes, func(p probed) bool { return p.String() == name })
		out := leftOut(pipes, pipes[at].api)
		if out {
			disabled = append(disabled, name)
		}
		return out
	})
	if disabled != nil {
		found = append(found, finding{resultNote, "pipes", "-enable-api leaves out " + strings.Join(disabled, ", "), "add it to -enable-api if a driver needs one"})
	}
	if slices.ContainsFunc(pipes, func(p probed) bool { return p.readOnly }) {
		found = append(found, finding{resultNote, "pipes", "csi-proxy refuses every change: it was started with -read-only-api", "start it without that flag to serve drivers"})
	}
	if l := by[absent]; len(l) > 0 {
		text := "missing: " + strings.Join(l, ", ")
		if slices.ContainsFunc(pipes, func(p probed) bool { return p.state == served && p.server == "csi-proxy "+own }) {
			found = append(found, finding{resultProblem, "pipes", text, ownersHint(owners, "the log of csi-proxy contains the reason")})
		} else {
			found = append(found, finding{resultNote, "pipes", text, "csi-proxy is of another release than csi-proxyctl; upgrade it if a driver needs these versions"})
		}
	}
	if l := by[stale]; l != nil {
		what, remedy := "csi-proxy was killed, and left these sockets: "+strings.Join(l, ", "), start
		if len(by[served]) > 0 {
			what, remedy = "no process listens on the sockets of "+strings.Join(l, ", ")+", although csi-proxy serves the others", "an earlier process left them, or something replaced them: "+restart(runtime.GOOS)
		}
		found = append(found, finding{resultProblem, "pipes", what, remedy})
	}
	if l := by[refused]; l != nil {
		found = append(found, finding{resultProblem, "pipes", "access denied: " + strings.Join(l, ", "),
			"run this command with the account of csi-proxy or as an administrator; a container must mount the pipe"})
	}
	for _, p := range pipes {
		if p.refuses {
			found = append(found, finding{resultProblem, "pipes", p.String() + " " + p.detail, "its log names the process with most, as caller and program; csi-proxyctl calls shows who calls now"})
		}
	}
	same := map[string][]string{}
	for _, p := range pipes {
		if p.state == unhealthy {
			same[p.detail] = append(same[p.detail], p.String())
		}
	}
	for _, detail := range slices.Sorted(maps.Keys(same)) {
		found = append(found, finding{resultProblem, "pipes", strings.Join(same[detail], ", ") + ": " + detail, "check the log of csi-proxy, and restart it if it hangs"})
	}
	return found
}

// restart returns how to restart csi-proxy.
func restart(system string) string {
	if system == "windows" {
		service, _ := theService() // examineServices reports the error
		return "Restart-Service " + quoted(service.Name)
	}
	return "end the process csi-proxy-sim, and start it again"
}

// startHint says how to start csi-proxy on a system, and where to find why it has ended. logs are
// the known log files or directories of the Windows service.
func startHint(system, service string, logs []string) string {
	if system != "windows" {
		return "start csi-proxy-sim; its sockets must be in the directory " + pipe.DirVariable + " or, if that is not set, in /run/csi-proxy or $XDG_RUNTIME_DIR/csi-proxy. " +
			"Its log, and the file beside it with a name that ends in -crash.log, have the reason if it ended by itself. If its process still exists, it is stopping, and waits a minute at most for calls that hang"
	}
	log := "its log"
	if len(logs) > 0 {
		log += " (" + strings.Join(logs, ", ") + ")"
	}
	return "start csi-proxy: sc.exe start " + service + "; " + log + ", the file beside it with a name that ends in -crash.log, and the event log Application, source " + service +
		", have the reason if it ended by itself; sc.exe query " + service + " shows its state: while it is stopping, it waits a minute at most for calls that hang"
}

// examineBuilds compares the builds of the servers and of this command.
func examineBuilds(pipes []probed, own string) []finding {
	by := map[string][]string{}
	var servers []string
	for _, p := range pipes {
		if p.state != served {
			continue
		}
		server := cmp.Or(p.server, "a csi-proxy of unknown version")
		if by[server] == nil {
			servers = append(servers, server)
		}
		by[server] = append(by[server], p.String())
	}
	if len(servers) > 1 {
		text := []string{}
		for _, s := range servers {
			text = append(text, s+" serves "+strings.Join(by[s], ", "))
		}
		return []finding{{resultProblem, "versions", strings.Join(text, "; "), "two csi-proxies run on this node: stop one of them, then restart the other"}}
	}
	if servers[0] != "csi-proxy "+own {
		return []finding{{resultNote, "versions", servers[0] + " is running, but this is csi-proxyctl " + own, "use a csi-proxyctl of the same release, which knows the same versions"}}
	}
	return []finding{{resultOK, "versions", servers[0] + ", same release as csi-proxyctl", ""}}
}

// examineKubelet checks the kubelet's directory, through the pipe.
func (a *app) examineKubelet(ctx context.Context, dir string) []finding {
	const check = "kubelet"
	conn, err := a.connectAPI("filesystem/v1")
	if err != nil {
		return checkFailed(check, err)
	}
	defer conn.Close()
	ctx, cancel := a.withShortLimit(ctx, answerLimit)
	defer cancel()
	out, err := filesystemv1.NewFilesystemClient(conn).PathExists(ctx, &filesystemv1.PathExistsRequest{Path: dir})
	switch {
	case status.Code(err) == codes.PermissionDenied:
		return []finding{{resultProblem, check, status.Convert(err).Message(), "start csi-proxy with -kubelet-path=" + dir + ", or run doctor with --kubelet-path if the kubelet is elsewhere"}}
	case err != nil:
		return checkFailed(check, &failure{"filesystem/v1 PathExists", err})
	case !out.Exists:
		return []finding{{resultProblem, check, dir + " is a working directory but does not exist", "start the kubelet, or set -kubelet-path of csi-proxy and doctor to its directory"}}
	}
	return []finding{{resultOK, check, dir + " exists and is a working directory", ""}}
}

// examineMappings checks the node's SMB mappings.
func (a *app) examineMappings(ctx context.Context) []finding {
	mappings, err := a.smbMappings(ctx)
	if err != nil {
		return checkFailed("smb", err)
	}
	return examineSMB(mappings)
}

// examineSMB finds mappings that are unused or do not work.
func examineSMB(mappings []smbMapping) []finding {
	found := []finding{}
	for _, m := range mappings {
		switch {
		case len(m.UsedBy) == 0:
			state := " is " + m.Status + ", and"
			if m.Status == "ok" {
				state = " works, but"
			}
			found = append(found, finding{resultProblem, "smb", m.Remote + state + " no CSI volume links to it", "csi-proxyctl call smb/v1 RemoveSmbGlobalMapping " + quoted("remote_path="+m.Remote) + ", unless a program uses it by its path; it is kept if a link elsewhere uses it"})
		case m.Status == "disconnected": // Windows connects again when it is used
			found = append(found, finding{resultNote, "smb", m.Remote + " is disconnected and used by " + m.UsedBy[0] + ": nothing uses it now, or its server is away", "csi-proxyctl why " + quoted(m.UsedBy[0]) + " asks the server"})
		case m.Status != "ok":
			found = append(found, finding{resultProblem, "smb", m.Remote + " is " + m.Status + " and used by " + m.UsedBy[0], "the next NewSmbGlobalMapping replaces the mapping; restart the pod, or check the server"})
		}
	}
	if len(found) == 0 {
		return []finding{{resultOK, "smb", plural(len(mappings), "1 mapping, working and used", "%d mappings, all working and used"), ""}}
	}
	return found
}

// examineISCSI checks the service that iSCSI needs. node may be nil, if its disks are not known.
func (a *app) examineISCSI(ctx context.Context, node *admin.DescribeResponse) []finding {
	const check = "iscsi"
	var s *systemv1alpha1.GetServiceResponse
	err := onAPI(ctx, a, "system/v1alpha1", systemv1alpha1.NewSystemClient, "GetService", func(ctx context.Context, client systemv1alpha1.SystemClient) (err error) {
		s, err = client.GetService(ctx, &systemv1alpha1.GetServiceRequest{Name: "MSiSCSI"})
		return err
	})
	state := "does not exist"
	switch {
	case err != nil && status.Code(err) != codes.NotFound:
		return checkFailed(check, err)
	case err != nil:
	case s.StartType == systemv1alpha1.StartType_DISABLED && s.Status != systemv1alpha1.ServiceStatus_RUNNING:
		state = "is disabled"
	default:
		state = "is " + strings.ToLower(s.Status.String())
	}
	for _, d := range node.GetDisks() {
		if state != "is running" && d.Bus == "iSCSI" && diskStanding(node, d) != free {
			return []finding{{resultProblem, check, fmt.Sprintf("the service MSiSCSI %s, although disk %d is a LUN of iSCSI and in use: a lost session is not made again", state, d.Number),
				"sc.exe config MSiSCSI start= auto; sc.exe start MSiSCSI"}}
		}
	}
	switch state {
	case "is running":
		return []finding{{resultOK, check, "the service MSiSCSI is running", ""}}
	case "does not exist", "is disabled":
		return []finding{{resultNote, check, "the service MSiSCSI " + state + ": this node cannot use iSCSI volumes", "to enable it, if it exists: sc.exe config MSiSCSI start= auto"}}
	}
	return []finding{{resultNote, check, "the service MSiSCSI " + state + "; Windows does not start it automatically", "if the node uses iSCSI volumes: sc.exe start MSiSCSI"}}
}
