package verify

import (
	"fmt"
	"io"
)

// dryRun prints what a run would do.
func dryRun(w io.Writer, o options, refusal string) {
	if refusal != "" {
		fmt.Fprintf(w, "A run would be refused: %s.\n\n", refusal)
	}
	fmt.Fprint(w, `A run makes, and takes back at its end, on Ctrl-C, or when the next run begins:
  a directory csi-proxy-verify-* in C:\ProgramData, with its files, links and mounted volumes
  virtual disks (VHDX files in that directory), attached while their process lives
  services contract-*, which run this program and do nothing
  named pipes csi-proxy-verify-*
It keeps a journal of them in %ProgramData%\csi-proxy-verify. It changes no disk but its own.
`)
	if o.MachineSettings {
		fmt.Fprintln(w, "With -machine-settings it turns automatic mounting of volumes off (mountvol /N), starts the service MSiSCSI if it is\nstopped, installs services csi-proxy-verify-*, and makes a local account and a share csi-proxy-verify*, which it\nmaps. It puts all back.")
	} else {
		fmt.Fprintln(w, "It changes no settings of the machine without -machine-settings.")
	}
	fmt.Fprintln(w, "\nSections:")
	for _, s := range sections(o) {
		fmt.Fprintf(w, "  %-16s %s\n", s.name, s.does)
	}
	print := func(q question) {
		fmt.Fprintf(w, "  %s\n    %s\n", q.asks, q.does)
		if q.settings && !o.MachineSettings {
			fmt.Fprintln(w, "    left out: needs -machine-settings")
		}
	}
	fmt.Fprintln(w, "\nQuestions:")
	for _, q := range asked(o) {
		print(q)
	}
	if o.FirstContact {
		return
	}
	fmt.Fprintln(w, "\nQuestions about a restart of Windows, for which -before-reboot leaves things on the machine, and -after-reboot removes them:")
	for _, q := range rebootQuestions() {
		print(q.question)
	}
	fmt.Fprintln(w, "\nQuestions that need a container, which docs/develop/windows.md says how to ask:")
	for _, q := range containerQuestions() {
		print(q)
	}
}
