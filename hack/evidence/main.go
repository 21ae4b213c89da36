package main

import (
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"
)

// coverageFile is the page that is written.
const coverageFile = "docs/evidence/coverage.md"

func main() { os.Exit(run(os.Args[1:], os.Stderr)) }

func run(args []string, stderr io.Writer) int {
	flags := flag.NewFlagSet("evidence", flag.ContinueOnError)
	flags.SetOutput(stderr)
	root := flags.String("root", ".", "the project's `directory`")
	if err := flags.Parse(args); err != nil {
		return 2
	}
	if err := write(*root); err != nil {
		fmt.Fprintf(stderr, "evidence: %v\n", err)
		return 1
	}
	return 0
}

func write(root string) error {
	c, err := readCoverage(root)
	if err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(root, coverageFile), []byte(c.page()), 0o644)
}
