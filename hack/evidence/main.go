package main

import (
	"flag"
	"fmt"
	"io"
	"os"

	"github.com/kubernetes-csi/csi-proxy/v2/hack/internal/generated"
)

const coverageFile = "docs/evidence/coverage.md"

func main() { os.Exit(run(os.Args[1:], os.Stderr)) }

func run(args []string, stderr io.Writer) int {
	flags := flag.NewFlagSet("evidence", flag.ContinueOnError)
	flags.SetOutput(stderr)
	root := flags.String("root", ".", "the project's `directory`")
	check := flags.Bool("check", false, "write nothing; fail if the page is out of date")
	if err := flags.Parse(args); err != nil {
		return 2
	}
	if err := write(*root, *check); err != nil {
		fmt.Fprintf(stderr, "evidence: %v\n", err)
		return 1
	}
	return 0
}

func write(root string, check bool) error {
	c, err := readCoverage(root)
	if err != nil {
		return err
	}
	return generated.Sync(root, map[string][]byte{coverageFile: []byte(c.page())}, check)
}
