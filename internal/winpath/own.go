package winpath

// Own are the directories of Windows and of the programs that run containers. Through
// csi-proxy nothing is made, linked, mounted over or removed there, whatever its flags are.
type Own struct {
	dirs    []Path
	kubelet Path
}

// ownNames are those on the drive of Windows, besides the directory of Windows itself.
var ownNames = []string{
	// Document, KNOWNFOLDERID: FOLDERID_ProgramFiles, FOLDERID_ProgramFilesX86. The names on the
	// disk are not translated. containerd's guide and EKS install their programs there.
	`Program Files`,
	`Program Files (x86)`,
	// What starts and repairs Windows (documents: "Boot and UEFI", REAgentC), and what Windows
	// keeps about volumes.
	`bootmgr`,
	`Boot`,
	`Recovery`,
	`System Volume Information`,
	// In ProgramData: keys of the machine and Defender, updates, keys of Windows' OpenSSH server
	// (document, "OpenSSH Server configuration for Windows"), and what repairs installed programs.
	`ProgramData\Microsoft`,
	`ProgramData\SoftwareDistribution`,
	`ProgramData\USOPrivate`,
	`ProgramData\USOShared`,
	`ProgramData\ssh`,
	`ProgramData\Package Cache`,
	// Code: the default root and state directories of containerd, the default data-root of Docker.
	`ProgramData\containerd`,
	`ProgramData\docker`,
	// Code: where sig-windows-tools installs the kubelet (Install.Destination); EKS has the
	// kubelet's configuration there.
	`ProgramData\Kubernetes`,
}

// OwnOf returns the directories for a Windows in the directory windows. What lies below the
// kubelet's directory is not among them, even if that is in one of them, other than windows.
func OwnOf(windows, kubelet Path) Own {
	own := Own{dirs: []Path{windows}, kubelet: kubelet}
	for _, text := range ownNames {
		if p, err := Parse(windows.Root().String() + text); err == nil {
			own.dirs = append(own.dirs, p)
		}
	}
	return own
}

// Of returns the directory that p is in, or with above also one that is in p. ok is false if
// there is none.
func (o Own) Of(p Path, above bool) (dir Path, ok bool) {
	for i, d := range o.dirs {
		kubelets := i > 0 && o.kubelet.Within(d) && p.Within(o.kubelet)
		if p.Within(d) && !kubelets || above && d.Within(p) {
			return d, true
		}
	}
	return Path{}, false
}

// OwnDenied says why nothing is changed in or at a path: dir is that of [Own.Of].
func OwnDenied(dir Path) string {
	return "which is in, or contains, " + dir.String() + ": csi-proxy changes nothing in the directories of Windows and of the programs that run containers"
}

// DirProblems says what is wrong with working directories that are accepted nevertheless,
// because the flag is a published one: a whole drive, or what is in the directories of [Own].
// The last one is the kubelet's. It skips texts that are no paths.
func DirProblems(dirs []string) (problems []string) {
	windows := Path{Volume: "C:", Elems: []string{"Windows"}}
	for i, text := range dirs {
		p, err := Parse(text)
		if err != nil {
			continue
		}
		last := i == len(dirs)-1
		switch dir, in := OwnOf(windows, Path{}).Of(p, false); {
		case p.IsRoot() && !p.IsUNC():
			problems = append(problems, "working directory "+text+" is a whole drive: requests may remove everything on it but the directories of Windows and of the programs that run containers; name the directories that drivers use")
		case in && last && p.Equal(dir) && !dir.Equal(windows):
			problems = append(problems, "the kubelet's directory "+text+" is one of Windows or of the programs that run containers: requests may change everything in it; name a directory that only the kubelet uses")
		case in && (!last || dir.Equal(windows)):
			problems = append(problems, "working directory "+text+" is in "+dir.String()+", where csi-proxy changes nothing; name another directory")
		}
	}
	return problems
}
