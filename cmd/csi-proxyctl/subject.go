package main

import (
	"regexp"
	"strconv"
	"strings"
)

// The kinds of subjects that why explains.
const (
	aName = iota
	aPath
	aVolume
	aDisk
	aPipe
)

// isSentence reports whether a text is too long to be a name.
func isSentence(text string) bool {
	return strings.Contains(text, ": ") || len(strings.Fields(text)) > 5
}

// subject is what why explains.
type subject struct {
	kind int
	text string
	disk uint32
}

var (
	pipeName   = regexp.MustCompile(`(?i)(?:^|pipe[\\/]+)(csi-proxy-(?:[a-z0-9]+-v[a-z0-9]+|admin))`)
	apiName    = regexp.MustCompile(`^([a-z]+)/(v[a-z0-9]+)$`)
	wholePath  = regexp.MustCompile(`(?i)^([a-z]:[\\/]|[\\/])`)
	pathInText = regexp.MustCompile(`(?i)(?:\b[a-z]:[\\/]+|(?:^|[\s"'(\[,=:])[\\/]+)[^\s"'<>|*?:,;()\[\]\\/]+(?:[\\/]+[^\s"'<>|*?:,;()\[\]\\/]+)+`)
	mappedFor  = regexp.MustCompile(`share "?(\\\\+[^\s"]+)"? is mapped for `) // the mapping that is in the way of another one
	volumeName = regexp.MustCompile(`(?i)Volume(\{[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}\})`)
	diskName   = regexp.MustCompile(`(?i)(?:^|\bdisk |PhysicalDrive)(\d+)\b`)
	namedAs    = []*regexp.Regexp{
		regexp.MustCompile(`volume \\*"([^"\\^]+)\\*"`),                                         // a persistent volume
		regexp.MustCompile(`kubernetes\.io/csi/[^\s"\\^]+\^([^\s"\\]+)`),                        // a volume handle
		regexp.MustCompile(`(?:UID:|[Pp]od) \\*"([0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12})`), // a pod
	}
	ofKubelet      = regexp.MustCompile(`(?i)\\pods\\|\\plugins\\|kubernetes\.io`)
	ofPrograms     = regexp.MustCompile(`(?i)^(?:[a-z]:)?\\(?:windows|program files|programdata\\(?:containerd|docker)|go|usr|dev|subscriptions)\\|\.sock$`)
	ofKubeletsFile = regexp.MustCompile(`(?i)[\\/]+vol_data\.json$`) // it stands in the directory of a volume
)

// subjectOf returns what a text names: a pipe, a path, a volume or a disk. A text with several
// of them, such as an error, names the first of these kinds, because a path leads to the rest; a
// path of the kubelet leads farther than a share. Any other text is a name.
func subjectOf(text string) subject {
	text = strings.TrimSpace(text)
	if m := pipeName.FindStringSubmatch(text); m != nil {
		return subject{kind: aPipe, text: strings.ToLower(m[1])}
	}
	if m := apiName.FindStringSubmatch(text); m != nil {
		return subject{kind: aPipe, text: "csi-proxy-" + m[1] + "-" + m[2]}
	}
	if m := mappedFor.FindStringSubmatch(text); m != nil {
		return subject{kind: aPath, text: unquoted(m[1])}
	}
	volume := volumeName.FindStringSubmatch(text)
	device := diskName.FindStringSubmatch(text)
	if wholePath.MatchString(text) && volume == nil && !strings.HasPrefix(text, `\\.\`) && !strings.ContainsAny(text, `"*<>|`+"\n") && !strings.Contains(text, ": ") {
		return subject{kind: aPath, text: unquoted(text)}
	}
	if path := bestPath(text); path != "" {
		return subject{kind: aPath, text: path}
	}
	if volume != nil {
		return subject{kind: aVolume, text: `\\?\Volume` + strings.ToLower(volume[1]) + `\`}
	}
	if device != nil {
		if n, err := strconv.ParseUint(device[1], 10, 32); err == nil && (device[0] != device[1] || device[1] == text) {
			return subject{kind: aDisk, disk: uint32(n)}
		}
	}
	for _, named := range namedAs {
		if m := named.FindStringSubmatch(text); m != nil {
			return subject{kind: aName, text: m[1]}
		}
	}
	return subject{kind: aName, text: text}
}

// bestPath returns the first path of the kubelet in a text; or else the first share, or the first
// path of a drive that is not of a program.
func bestPath(text string) string {
	share, other := "", ""
	for _, found := range pathInText.FindAllString(text, -1) {
		path := unquoted(strings.TrimRight(strings.TrimLeft(found, " \t\n\"'([,=:"), `.`))
		path = ofKubeletsFile.ReplaceAllString(path, "")
		slashes := strings.ReplaceAll(path, "/", `\`)
		isShare := strings.HasPrefix(slashes, `\\`)
		switch hasDrive := len(path) > 1 && path[1] == ':'; {
		case ofPrograms.MatchString(slashes):
		case ofKubelet.MatchString(slashes) && !isShare:
			return path
		case isShare && share == "" && !strings.HasPrefix(slashes, `\\.\`):
			share = path
		case (hasDrive || strings.HasPrefix(strings.ToLower(slashes), `\var\lib\`)) && other == "":
			other = path
		}
	}
	if share != "" {
		return share
	}
	return other
}

// unquoted returns a path as it was before Go or JSON doubled its backslashes, however often. Only
// a share begins with twice as many as it has inside.
func unquoted(path string) string {
	lead := len(path) - len(strings.TrimLeft(path, `\`))
	inside, run := 0, 0
	for _, r := range path[lead:] {
		if r == '\\' {
			run++
			continue
		}
		inside, run = max(inside, run), 0
	}
	out := backslashes.ReplaceAllString(path[lead:], `\`)
	switch {
	case lead > 0 && lead >= 2*max(inside, 1):
		return `\\` + out
	case lead > 0:
		return `\` + out
	}
	return out
}

var backslashes = regexp.MustCompile(`\\+`)

// driverRuns says how to see whether the driver runs on the node.
const driverRuns = "kubectl get pods -A -o wide --field-selector spec.nodeName=NODE shows whether the driver's pod runs: see the logs of its containers, and of node-driver-registrar"

// textCauses are causes that stand in the text of an event: another part of Kubernetes has failed,
// and csi-proxy knows nothing of it. The first that matches counts. $1 and so on are what its groups match.
var textCauses = []struct {
	key            string
	match          *regexp.Regexp
	result         string
	cause, command string
}{
	{"unregistered", regexp.MustCompile(`driver name (\S+) not found in the list of registered CSI drivers|CSINode \S+ does not contain driver (\S+)|has no NodeID annotation|not supported by driver (\S+) \(no CSIDriver object\)`), resultProblem,
		"the CSI driver $1$2$3 has not registered with the kubelet of this node", "kubectl get csinode NODE -o yaml lists the drivers that have; " + driverRuns},
	{"driver down", regexp.MustCompile(`(?i)unix [^\s"]+\.sock: connect: `), resultProblem,
		"the CSI driver of this node does not answer the kubelet", driverRuns},
	{"kubelet's file", regexp.MustCompile(`failed to (?:load|open|parse) volume data file`), resultProblem,
		"the kubelet's file vol_data.json, by which it knows the volume of a directory, is missing or damaged", "csi-proxyctl why with the path shows whether the volume is still mounted there; the kubelet tries again; if that persists, kubectl drain and restart the node"},
	{"orphan", regexp.MustCompile(`Orphaned pod .* found, but`), resultProblem,
		"the kubelet could not remove the directory of a pod that is deleted", "csi-proxyctl why with the UID shows what is mounted there; the kubelet removes the directory when nothing is"},
	{"no user", regexp.MustCompile(`empty username or password is not allowed`), resultProblem,
		"the driver was given no user or no password for the share", "write both into the secret that the persistent volume names"},
	{"no PowerShell", regexp.MustCompile(`exec: \\*"powershell(?:\.exe)?\\*": executable file not found`), resultProblem,
		"the driver runs PowerShell in its own container, where there is none", "use the image of the driver for this version of Windows, or one that calls csi-proxy"},
	{"not resized", regexp.MustCompile(`could not resize volume|[Ee]rror resizing volume|failed to expand the volume`), resultProblem,
		"the driver could not extend the volume", "csi-proxyctl calls --failed -o json shows the error; csi-proxyctl disk list shows whether Windows knows the new size of the disk"},
	{"multi-attach", regexp.MustCompile(`Multi-Attach error for volume|already exclusively attached to one node`), resultProblem,
		"another node still has the volume attached", "kubectl get volumeattachments names the node; its pod must end, and its kubelet unmount the volume: csi-proxyctl why there says what prevents that"},
	{"not attached", regexp.MustCompile(`AttachVolume\.Attach failed|Volume not attached according to node status|has not yet been added to the list of VolumesInUse|attachment timeout for volume`), resultProblem,
		"the volume was not attached to the node", "kubectl describe volumeattachments shows the error of the driver's controller"},
	{"no disk", regexp.MustCompile(`(?i)no disk with serial|findDiskByLun\(\S*\) failed|no device path for device|not attached to node|could not find disk|cannot find disk|no disk (?:was )?found`), resultProblem,
		"the driver does not find the disk of the volume on this node", "csi-proxyctl disk list shows the disks with their serial numbers; csi-proxyctl call disk/v1 Rescan looks for new ones; kubectl get volumeattachments shows whether the volume is attached here"},
	{"already runs", regexp.MustCompile(`[Aa]n operation with the given Volume(?: ID)? (\S+) already exists`), resultProblem,
		"an earlier request of the driver for the same volume has not ended", "csi-proxyctl calls shows whether it waits for csi-proxy; otherwise see the driver's log"},
	{"in use", regexp.MustCompile(`being used by another process`), resultProblem,
		"a program has something open that is to be unmounted or removed", heldRemedy},
	{"runtime", regexp.MustCompile(`hcs(?:shim)?::|failed to (?:create|start) (?:containerd|shim) task|failed to generate container|CreateContainer(?:Error| within sandbox)`), resultProblem,
		"the container runtime could not make the container", "kubectl describe pod shows whether its volumes are mounted; the log of containerd on the node has the rest"},
	{waits, regexp.MustCompile(`timed out waiting for the condition|timeout expired waiting for volumes|context deadline exceeded`), resultUnknown,
		"the kubelet or the driver waited for something in vain, and the text does not say for what", "kubectl describe pod shows the other events; kubectl get volumeattachments, whether the volume is attached; csi-proxyctl calls, whether a call hangs"},
}

// waits is the key of a text that says only that something was not done in time.
const waits = "waits"

// causeIn returns the cause that stands in a text; "" without one.
func causeIn(text string) (key, result, cause, command string) {
	for _, c := range textCauses {
		if m := c.match.FindStringSubmatchIndex(text); m != nil {
			cause := string(c.match.ExpandString(nil, c.cause, text, m))
			return c.key, c.result, strings.ReplaceAll(cause, "  ", " "), c.command
		}
	}
	return "", "", "", ""
}
