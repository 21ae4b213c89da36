package verify

import (
	"fmt"
	"io"
	"strings"
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
		fmt.Fprintln(w, "With -machine-settings it starts the service MSiSCSI if it is stopped, and makes a local account and a share\ncsi-proxy-verify*, which it maps. It puts all back.")
	} else {
		fmt.Fprintln(w, "It changes no settings of the machine without -machine-settings.")
	}
	fmt.Fprintln(w, "\nSections:")
	for _, s := range sections(o) {
		fmt.Fprintf(w, "  %-16s %s\n", s.name, s.does)
	}
	fmt.Fprintln(w, "\nQuestions, each with the answers that the code is ready for:")
	for _, q := range asked(o) {
		fmt.Fprintf(w, "  %s\n    %s\n    %s", q.asks, q.does, strings.Join(q.expected(), ", or "))
		if q.change != "" {
			fmt.Fprintf(w, "; otherwise %s", q.change)
		}
		fmt.Fprintln(w)
		if q.settings && !o.MachineSettings {
			fmt.Fprintln(w, "    left out: needs -machine-settings")
		}
	}
}
