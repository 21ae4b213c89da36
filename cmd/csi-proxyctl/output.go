package main

import (
	"encoding/json"
	"fmt"
	"strings"
	"text/tabwriter"
)

// print prints rows as a table, or value as JSON.
func (a *app) print(value any, header string, rows [][]string) error {
	if a.output == "json" {
		e := json.NewEncoder(a.stdout)
		e.SetIndent("", "  ")
		e.SetEscapeHTML(false)
		if err := e.Encode(value); err != nil {
			return &failure{err: err}
		}
		return nil
	}
	w := tabwriter.NewWriter(a.stdout, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, strings.Join(strings.Fields(header), "\t"))
	for _, row := range rows {
		for i, cell := range row {
			if cell == "" {
				row[i] = "-"
			}
		}
		fmt.Fprintln(w, strings.Join(row, "\t"))
	}
	if err := w.Flush(); err != nil {
		return &failure{err: err}
	}
	return nil
}

// note says something that is no result.
func (a *app) note(format string, args ...any) {
	fmt.Fprintf(a.stderr, "csi-proxyctl: "+format+"\n", args...)
}

// bytesText is a size as a person reads it.
func bytesText(n uint64) string {
	for _, unit := range []struct {
		name string
		size uint64
	}{{"TiB", 1 << 40}, {"GiB", 1 << 30}, {"MiB", 1 << 20}, {"KiB", 1 << 10}} {
		switch {
		case n < unit.size:
		case n%unit.size == 0:
			return fmt.Sprintf("%d %s", n/unit.size, unit.name)
		default:
			return fmt.Sprintf("%.1f %s", float64(n)/float64(unit.size), unit.name)
		}
	}
	return fmt.Sprintf("%d B", n)
}

func yesNo(b bool) string {
	if b {
		return "yes"
	}
	return "no"
}
