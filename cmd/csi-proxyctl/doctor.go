package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	filesystemv1 "github.com/kubernetes-csi/csi-proxy/client/api/filesystem/v1"
	systemv1alpha1 "github.com/kubernetes-csi/csi-proxy/client/api/system/v1alpha1"
	filesystem "github.com/kubernetes-csi/csi-proxy/client/groups/filesystem/v1"
	system "github.com/kubernetes-csi/csi-proxy/client/groups/system/v1alpha1"
	"github.com/kubernetes-csi/csi-proxy/client/pipe"
	"github.com/kubernetes-csi/csi-proxy/v2/internal/simcontrol"
	diskapi "github.com/kubernetes-csi/csi-proxy/v2/pkg/disk/hostapi"
)

// The results of a check.
const (
	resultOK      = "ok"
	resultNote    = "note"    // worth knowing, and may be meant to be so
	resultProblem = "problem" // somebody should look at it
)

// finding is what a check says about a thing.
type finding struct {
	Result string `json:"result"`
	Check  string `json:"check"`
	What   string `json:"what"`
	Hint   string `json:"hint"`
}

// errFindings is the end of a doctor that found problems; they have been
// printed.
var errFindings = errors.New("problems were found")

func (a *app) doctorCommand() *cobra.Command {
	kubelet := `C:\var\lib\kubelet`
	c := &cobra.Command{
		Use:   "doctor",
		Short: "Look for what is wrong on the node, and say what to do",
		Long: `Look for what is wrong on the node, and say what to do about it. Nothing is
changed. What is looked at:

  pipes    whether csi-proxy answers, with every version, and lets this account in
  versions whether all pipes are of one build, and this command too
  kubelet  whether the kubelet's directory is there and a working directory
  disks    disks that are offline or read-only
  smb      SMB mappings that no link uses, and mappings that do not work
  iscsi    the service MSiSCSI

The exit code is 3 if there is a problem, 0 if there are only notes.`,
		Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error { return a.examine(c.Context(), kubelet) },
	}
	c.Flags().StringVar(&kubelet, "kubelet-path", kubelet, "the kubelet's `directory`")
	return a.watchable(c)
}

// examine makes all checks and prints what they found.
func (a *app) examine(ctx context.Context, kubelet string) error {
	var pipes []probed
	for _, svc := range catalog() {
		pipes = append(pipes, a.probe(ctx, svc))
	}
	found := examinePipes(pipes, version)
	if slices.ContainsFunc(pipes, func(p probed) bool { return p.state == served }) {
		found = slices.Concat(found, examineBuilds(pipes, version), a.examineKubelet(ctx, kubelet), a.examineDisks(ctx), a.examineMappings(ctx), a.examineISCSI(ctx))
	}
	if err := a.printFindings(found); err != nil {
		return err
	}
	if slices.ContainsFunc(found, func(f finding) bool { return f.Result == resultProblem }) {
		return &failure{err: errFindings}
	}
	return nil
}

// printFindings prints a line for each finding, and its hint below it.
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

// notAsked is the finding of a check that could not be made.
func notAsked(check string, err error) []finding {
	text, hint, _ := strings.Cut(explain(err), "\nhint: ")
	return []finding{{resultProblem, check, "cannot be checked: " + text, hint}}
}

// examinePipes looks at which pipes answer. A csi-proxy of this command's release
// has all of them; another one may be older.
func examinePipes(pipes []probed, own string) []finding {
	by := map[pipeState][]string{}
	for _, p := range pipes {
		by[p.state] = append(by[p.state], p.String())
	}
	start := "start it, and look at its log: csi-proxy.exe -windows-service as a service, sc.exe query csiproxy shows it"
	if runtime.GOOS != "windows" {
		start = "start csi-proxy-sim; it is looked for in the directory that " + pipe.DirVariable + " names, else in /run/csi-proxy or $XDG_RUNTIME_DIR/csi-proxy"
	}
	if len(by[absent]) == len(pipes) {
		return []finding{{resultProblem, "pipes", "csi-proxy does not run: there is no pipe", start}}
	}
	found := []finding{}
	if n := len(by[served]); n > 0 {
		found = append(found, finding{resultOK, "pipes", fmt.Sprintf("%d of %d versions of the API answer", n, len(pipes)), ""})
	}
	if l := by[absent]; l != nil {
		text := "not there: " + strings.Join(l, ", ")
		if slices.ContainsFunc(pipes, func(p probed) bool { return p.state == served && p.server == "csi-proxy "+own }) {
			found = append(found, finding{resultProblem, "pipes", text, "the log of csi-proxy says why it does not serve them"})
		} else {
			found = append(found, finding{resultNote, "pipes", text, "if a driver needs them: this csi-proxy is of another release than csi-proxyctl, perhaps an older one"})
		}
	}
	if l := by[stale]; l != nil {
		found = append(found, finding{resultProblem, "pipes", "csi-proxy was killed; what is left answers nobody: " + strings.Join(l, ", "), start})
	}
	if l := by[refused]; l != nil {
		found = append(found, finding{resultProblem, "pipes", "access is denied: " + strings.Join(l, ", "),
			"run this command as the account that runs csi-proxy, or as an administrator; a container needs the pipe among its mounts"})
	}
	for _, p := range pipes {
		if p.state == ill {
			found = append(found, finding{resultProblem, "pipes", p.String() + ": " + p.detail, "look at the log of csi-proxy, and restart it if it hangs"})
		}
	}
	return found
}

// examineBuilds looks at what answers, and at this command.
func examineBuilds(pipes []probed, own string) []finding {
	by := map[string][]string{}
	var servers []string
	for _, p := range pipes {
		if p.state != served {
			continue
		}
		server := cmp.Or(p.server, "a csi-proxy that does not tell its version")
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
		return []finding{{resultProblem, "versions", strings.Join(text, "; "), "two of them run on this node: stop the one that is not wanted, then restart the other"}}
	}
	if servers[0] != "csi-proxy "+own {
		return []finding{{resultNote, "versions", servers[0] + " serves, and this is csi-proxyctl " + own, "a csi-proxyctl of the same release knows the same versions"}}
	}
	return []finding{{resultOK, "versions", servers[0] + ", and csi-proxyctl of the same release", ""}}
}

// examineKubelet looks at the kubelet's directory through the pipe.
func (a *app) examineKubelet(ctx context.Context, dir string) []finding {
	const check = "kubelet"
	client, err := filesystem.NewClient()
	if err != nil {
		return notAsked(check, &failure{err: err})
	}
	defer client.Close()
	ctx, cancel := a.limited(ctx)
	defer cancel()
	out, err := client.PathExists(ctx, &filesystemv1.PathExistsRequest{Path: dir})
	switch {
	case status.Code(err) == codes.PermissionDenied:
		return []finding{{resultProblem, check, status.Convert(err).Message(), "start csi-proxy with -kubelet-path=" + dir + ", or tell doctor by --kubelet-path where the kubelet is"}}
	case err != nil:
		return notAsked(check, &failure{"filesystem/v1 PathExists", err})
	case !out.Exists:
		return []finding{{resultProblem, check, dir + " is a working directory and does not exist", "start the kubelet, or tell doctor and csi-proxy by -kubelet-path where it is"}}
	}
	return []finding{{resultOK, check, dir + " is there and a working directory", ""}}
}

// examineDisks looks for disks that are not as a volume needs them.
func (a *app) examineDisks(ctx context.Context) []finding {
	const check = "disks"
	disks, err := a.disks(ctx, nil)
	if err != nil && !errors.Is(err, errIncomplete) {
		return notAsked(check, err)
	}
	readOnly, known := a.readOnlyDisks(ctx, disks)
	var found []finding
	for _, d := range disks {
		what := fmt.Sprintf("disk %d", d.Number)
		if d.Serial != "" {
			what += " (" + d.Serial + ")"
		}
		switch {
		case d.SizeBytes == nil || d.Online == nil:
			found = append(found, finding{resultProblem, check, what + " does not answer", fmt.Sprintf("csi-proxyctl disk list %d says why; detach a disk that is broken", d.Number)})
		case !*d.Online:
			found = append(found, finding{resultProblem, check, what + " is offline", fmt.Sprintf("csi-proxyctl call disk/v1 SetDiskState disk_number=%d is_online=true, unless the SAN policy or a cluster keeps it so", d.Number)})
		case readOnly[d.Number]:
			found = append(found, finding{resultProblem, check, what + " is read-only", fmt.Sprintf("PartitionDisk makes a blank disk writable; else on the node: Set-Disk -Number %d -IsReadOnly $false", d.Number)})
		}
	}
	if found != nil {
		return found
	}
	text := fmt.Sprintf("%d disks, all online and writable", len(disks))
	if !known {
		text = fmt.Sprintf("%d disks, all online; whether they are writable the API does not tell", len(disks))
	}
	return []finding{{resultOK, check, text, ""}}
}

// readOnlyDisks are the disks that cannot be written to, if that is known: of the
// simulated node if such a node is served here, else of the Windows that this
// command runs on. The API has no method that tells it.
func (a *app) readOnlyDisks(ctx context.Context, disks []diskEntry) (numbers map[uint32]bool, known bool) {
	numbers = map[uint32]bool{}
	conn, err := connect(pipe.Path(simcontrol.Pipe))
	if err != nil {
		api := diskapi.New()
		for _, d := range disks {
			if numbers[d.Number], err = api.GetDiskReadOnly(d.Number); err != nil {
				return nil, false
			}
		}
		return numbers, true
	}
	defer conn.Close()
	ctx, cancel := a.limited(ctx)
	defer cancel()
	state, err := simcontrol.NewNodeClient(conn).Show(ctx, &simcontrol.ShowRequest{})
	if err != nil {
		return nil, false
	}
	for _, d := range state.Disks {
		numbers[d.Number] = d.ReadOnly
	}
	return numbers, true
}

// examineMappings looks at the node's SMB mappings.
func (a *app) examineMappings(ctx context.Context) []finding {
	mappings, err := a.smbMappings(ctx)
	if err != nil {
		return notAsked("smb", err)
	}
	return examineSMB(mappings)
}

// examineSMB finds mappings that were left behind or do not work.
func examineSMB(mappings []smbMapping) []finding {
	found := []finding{}
	for _, m := range mappings {
		switch {
		case len(m.UsedBy) == 0:
			found = append(found, finding{resultProblem, "smb", m.Remote + " is " + m.Status + ", and no CSI volume links to it", "csi-proxyctl smb remove '" + m.Remote + "', unless somebody uses it by its path; it stays if a link in another place uses it"})
		case m.Status != "ok":
			found = append(found, finding{resultProblem, "smb", m.Remote + " is " + m.Status + ", and used by " + m.UsedBy[0], "the next NewSmbGlobalMapping makes it anew; restart the pod, or check the server"})
		}
	}
	if len(found) == 0 {
		return []finding{{resultOK, "smb", fmt.Sprintf("%d mappings, each works and is used", len(mappings)), ""}}
	}
	return found
}

// examineISCSI looks at the service that everything about iSCSI needs.
func (a *app) examineISCSI(ctx context.Context) []finding {
	const check = "iscsi"
	var s *systemv1alpha1.GetServiceResponse
	err := a.onSystem(ctx, "GetService", func(ctx context.Context, client *system.Client) (err error) {
		s, err = client.GetService(ctx, &systemv1alpha1.GetServiceRequest{Name: "MSiSCSI"})
		return err
	})
	switch {
	case status.Code(err) == codes.NotFound:
		return []finding{{resultNote, check, "the service MSiSCSI is not there: no iSCSI volumes on this node", ""}}
	case err != nil:
		return notAsked(check, err)
	case s.StartType == systemv1alpha1.StartType_DISABLED:
		return []finding{{resultNote, check, "the service MSiSCSI is disabled: no iSCSI volumes on this node", "to have them: sc.exe config MSiSCSI start= auto"}}
	case s.Status != systemv1alpha1.ServiceStatus_RUNNING:
		return []finding{{resultNote, check, "the service MSiSCSI is " + strings.ToLower(s.Status.String()) + ", and Windows does not start it by itself", "if the node has iSCSI volumes: csi-proxyctl system start MSiSCSI"}}
	}
	return []finding{{resultOK, check, "the service MSiSCSI runs", ""}}
}
