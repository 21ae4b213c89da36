// Program probe prints its state.
package main

import (
	"encoding/json"
	"flag"
	"fmt"
	"log"
	"log/slog"
	"os"
	"runtime"
	"slices"
	"strings"
)

func main() {
	state := map[string][]string{}
	add := func(what string, values ...string) { state[what] = append(state[what], values...) }

	stacks := make([]byte, 1<<20)
	stacks = stacks[:runtime.Stack(stacks, true)]
	for _, g := range strings.Split(string(stacks), "\n\n")[1:] { // the first is the goroutine that runs main
		lines := strings.Split(g, "\n")
		add("goroutines", lines[len(lines)-2]) // where the goroutine was started
	}

	descriptors, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		log.Fatal(err)
	}
	for _, d := range descriptors {
		// The descriptor of the directory itself is closed now. The numbers of pipes
		// and sockets vary, so only the kind is compared.
		if to, err := os.Readlink("/proc/self/fd/" + d.Name()); err == nil {
			kind, _, _ := strings.Cut(to, ":")
			add("files", d.Name()+" "+kind)
		}
	}

	flag.VisitAll(func(f *flag.Flag) { add("flags", f.Name) })
	add("environment", os.Environ()...)
	dir, err := os.Getwd()
	if err != nil {
		log.Fatal(err)
	}
	add("directory", dir)

	status, err := os.ReadFile("/proc/self/status")
	if err != nil {
		log.Fatal(err)
	}
	for _, line := range strings.Split(string(status), "\n") {
		for _, name := range []string{"Umask", "SigBlk", "SigIgn", "SigCgt", "Groups", "NoNewPrivs"} {
			if strings.HasPrefix(line, name+":") {
				add("process", line)
			}
		}
	}
	add("loggers", log.Prefix())
	add("loggers", fmt.Sprintf("%T", slog.Default().Handler()))
	if log.Flags() != log.LstdFlags || log.Writer() != os.Stderr {
		add("loggers", "changed")
	}

	for _, values := range state {
		slices.Sort(values)
	}
	if err := json.NewEncoder(os.Stdout).Encode(state); err != nil {
		log.Fatal(err)
	}
}
