package worlds

import (
	"fmt"
	"strings"

	"github.com/kubernetes-csi/csi-proxy/v2/pkg/simnode/nodespec"
)

// An answer is a question about Windows that is open or depends on the machine, and how the
// strict node answers it: by options, by behavior that has no option, or not yet.
type answer struct {
	question string
	options  string // their keys
	always   string // behavior without an option
	missing  string // how the node is kinder than Windows may be, and why
}

// answers are in the order in which an audit of the code against Microsoft's documents
// found them.
var answers = []answer{
	{question: "What does a volume say while it is offline?", options: "offlineVolumes"},
	{question: "Is a new volume online where Windows does not mount volumes?", options: "automount"},
	{question: "What is the layout of a blank disk?", options: "blankDisks"},
	{question: "When does a volume have the length of its partition?", options: "volumeGrowth"},
	{question: "Does the usable range of a GPT follow its disk?", options: "gptEnd growRefused"},
	{question: "When is there a reserved partition?", options: "newGPT"},
	{question: "Can an offline disk be read?", options: "offlineReads"},
	{question: "Can a volume on a write-protected disk be opened for writing?", options: "writeProtected isWritable"},
	{question: "How is the directory of a mount point opened?", options: "mountOpens"},
	{question: "When does WMI know a new volume?", options: "formatKnows"},
	{question: "What becomes of a disk with the identity of another one?", always: "it is offline, and gets a new identity when it comes online"},
	{question: "Who may scan for devices?", options: "privileges"},
	{question: "When do new disks and volumes appear?", options: "attach newVolumes"},
	{question: "Do disks keep their numbers over a restart?", options: "diskNumbers"},
	{question: "How much room must the caller give?", always: "a layout needs room for one entry, and so do extents"},
	{question: "In which state do disks arrive?", options: "sanPolicy"},
	{question: "What is lost when a disk goes offline in use?", always: "what was written since the last flush"},
	{question: "How long do other programs hold a new disk?", options: "newDisks", always: "for 5 ms; tests let CreateFile fail for up to 5 s"},
	{question: "Whose credentials has an SMB mapping?", options: "smbUsers"},
	{question: "Does the error of a mapping say why it failed?", options: "smbErrors"},
	{question: "What does a restart leave of mappings?", options: "smbAfterReboot"},
	{question: "When does a disconnected mapping work again?", options: "smbReconnect"},
	{question: "What is the error about a server that is down, and how late is it?", options: "smbServerGone", always: "it comes after smbTimeout, or 5 ms"},
	{question: "Do SMB calls wait for each other?", options: "smbCalls"},
	{question: "Are privileges enabled?", options: "privileges"},
	{question: "Do access control lists count?", always: "the rights of a file that a test sets", missing: "other files grant everything: below C:\\ they inherit full control for LocalSystem, as which csi-proxy runs"},
	{question: "Can the path of a file on a share be asked for?", options: "shareNames"},
	{question: "What is the path of a deleted file?", always: "a name below \\$Extend\\$Deleted"},
	{question: "May the user of a share have no domain?", missing: "it may: most reports have users without a domain, and none says when Windows returns error 1312. The error names the remedy"},
	{question: "Can a name of a pipe be served twice?", always: "no; on sockets too"},
	{question: "How are the discovery mechanisms of iSCSI spelled?", options: "iscsiDiscovery"},
	{question: "What does DFS change?", missing: "there is no DFS: no source says how Windows lists and removes the mapping of a DFS path"},
	{question: "What of reparse points whose tag belongs to a filter?", options: "filterTags"},
}

// Answers returns the questions, and all options with their values, as Markdown.
func Answers() string {
	var b strings.Builder
	b.WriteString("| | question | on the strict node | kinder than Windows may be, and why |\n|---|---|---|---|\n")
	for i, a := range answers {
		var strict []string
		for _, key := range strings.Fields(a.options) {
			for _, o := range nodespec.Options() {
				if o.Key == key {
					strict = append(strict, fmt.Sprintf("`%s: %s`", key, o.Values[0].Name))
				}
			}
		}
		if a.always != "" {
			strict = append(strict, a.always+" (no option)")
		}
		fmt.Fprintf(&b, "| %d | %s | %s | %s |\n", i+1, a.question, strings.Join(strict, ", "), a.missing)
	}
	b.WriteString("\n## All options\n\nThe first value of each is that of the strict node, the last that of the world `kind`.\n\n")
	b.WriteString("| option | what it is about | value | what Windows does then |\n|---|---|---|---|\n")
	for _, o := range nodespec.Options() {
		key, does := o.Key, o.Does
		for _, v := range o.Values {
			fmt.Fprintf(&b, "| %s | %s | %s | %s |\n", key, does, v.Name, v.Does)
			key, does = "", ""
		}
	}
	return b.String()
}
