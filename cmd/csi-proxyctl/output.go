package main

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"reflect"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
)

// The formats of results.
const (
	formatTable = "table"
	formatWide  = "wide" // a table with all columns
	formatJSON  = "json"
)

// formats returns the formats of a command's result.
func formats(c *cobra.Command) []string {
	if c.Annotations[listAnnotation] != "" {
		return []string{formatTable, formatWide, formatJSON}
	}
	return []string{formatTable, formatJSON}
}

// oneOf formats a choice.
func oneOf(words []string) string {
	last := len(words) - 1
	return strings.Join(words[:last], ", ") + " or " + words[last]
}

// print prints rows as a table, or value as JSON. Columns after a "|" in the header are those of
// --output wide. A list is always an array of objects, even if the table has one column, so that
// fields can be added later.
func (a *app) print(value any, header string, rows [][]string) error {
	if a.output == formatJSON {
		return a.printValue(value)
	}
	usual, more, _ := strings.Cut(header, "|")
	columns := strings.Fields(usual)
	if a.output == formatWide {
		columns = append(columns, strings.Fields(more)...)
	}
	w := tabwriter.NewWriter(a.stdout, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, strings.Join(columns, "\t"))
	for _, row := range rows {
		row = row[:len(columns)]
		for i, cell := range row {
			row[i] = cmp.Or(printable(cell), "-")
		}
		fmt.Fprintln(w, strings.Join(row, "\t"))
	}
	if err := w.Flush(); err != nil {
		return &failure{err: err}
	}
	return nil
}

// printValue prints value as JSON.
func (a *app) printValue(value any) error {
	e := json.NewEncoder(a.stdout)
	e.SetIndent("", "  ")
	e.SetEscapeHTML(false)
	if err := e.Encode(value); err != nil {
		return &failure{err: err}
	}
	return nil
}

// printMessage prints a response of the API, with the field names of its .proto file. It
// includes zero values: that a disk is not online is information.
func (a *app) printMessage(m proto.Message) error {
	text, err := protojson.MarshalOptions{UseProtoNames: true, EmitUnpopulated: true}.Marshal(m)
	if err != nil {
		return err
	}
	// The output of protojson has a random number of blanks.
	var b bytes.Buffer
	if err := json.Indent(&b, text, "", "  "); err != nil {
		return err
	}
	b.WriteByte('\n')
	if _, err := b.WriteTo(a.stdout); err != nil {
		return &failure{err: err}
	}
	return nil
}

// withLists returns v with empty lists instead of nil ones, so that a program
// always finds a list.
func withLists[T any](v T) T {
	fillLists(reflect.ValueOf(&v).Elem())
	return v
}

func fillLists(v reflect.Value) {
	switch v.Kind() {
	case reflect.Slice:
		if v.IsNil() {
			v.Set(reflect.MakeSlice(v.Type(), 0, 0))
		}
		for i := range v.Len() {
			fillLists(v.Index(i))
		}
	case reflect.Struct:
		for i := range v.NumField() {
			fillLists(v.Field(i))
		}
	}
}

// plural returns the text for one thing, or the text for several with their number.
func plural(n int, one, several string) string {
	if n == 1 {
		return one
	}
	return fmt.Sprintf(several, n)
}

// line prints one line outside of a table.
func (a *app) line(format string, args ...any) error {
	if _, err := fmt.Fprintln(a.stdout, printable(fmt.Sprintf(format, args...))); err != nil {
		return &failure{err: err}
	}
	return nil
}

// note prints a line to stderr, after the name of the command.
func (a *app) note(format string, args ...any) {
	fmt.Fprintln(a.stderr, "csi-proxyctl: "+printable(fmt.Sprintf(format, args...)))
}

// noteError notes an error and, on a line of its own, its hint.
func (a *app) noteError(err error) {
	text, hint := explain(err)
	a.note("%s", text)
	if hint != "" {
		a.note("hint: %s", hint)
	}
}

// bytesText formats a size with a unit.
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
