// Command sources writes docs/contract/sources.md: who says that Windows answers as the
// emulated side does. `make generate` runs it.
//
// It reads labels in the comments of internal/win32/emulated:
//
//	// Source: document, IOCTL_DISK_GROW_PARTITION.
//	// Source of ERROR_DISK_FULL, ERROR_IO_DEVICE: inference.
//
// A label is about the statement or the case that it stands directly above, or at the end
// of whose first line it stands, and about all that is inside. In the comment of a
// function it is about the function. The nearest label counts. One that names codes is
// about these codes only. The kinds are those of [kinds].
//
// It fails if a code of an error is returned without a label, if a call of win32.API has
// none for what it returns when it succeeds, and if a label is about nothing.
package main

import (
	"flag"
	"fmt"
	"io"
	"os"

	"github.com/kubernetes-csi/csi-proxy/v2/hack/internal/generated"
)

const pageFile = "docs/contract/sources.md"

func main() { os.Exit(run(os.Args[1:], os.Stderr)) }

func run(args []string, stderr io.Writer) int {
	flags := flag.NewFlagSet("sources", flag.ContinueOnError)
	flags.SetOutput(stderr)
	root := flags.String("root", ".", "the project's `directory`")
	check := flags.Bool("check", false, "write nothing; fail if the page is out of date")
	if err := flags.Parse(args); err != nil {
		return 2
	}
	if err := write(*root, *check); err != nil {
		fmt.Fprintf(stderr, "sources: %v\n", err)
		return 1
	}
	return 0
}

func write(root string, check bool) error {
	c, err := readCode(root)
	if err != nil {
		return err
	}
	answers, err := c.answers()
	if err != nil {
		return err
	}
	if err := checkGuards(answers); err != nil {
		return err
	}
	return generated.Sync(root, map[string][]byte{pageFile: []byte(page(answers))}, check)
}
