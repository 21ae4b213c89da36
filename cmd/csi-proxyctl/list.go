package main

import (
	"encoding/json"
	"fmt"
	"reflect"
	"strings"

	"github.com/spf13/cobra"
)

// listAnnotation marks commands that print a list.
const listAnnotation = "list"

// listing adds the flags of lists to a command that prints one.
func (a *app) listing(c *cobra.Command) *cobra.Command {
	c.Annotations = map[string]string{listAnnotation: "yes"}
	c.Flags().StringArrayVar(&a.filters, "filter", nil, "show only entries with `FIELD=VALUE` or FIELD!=VALUE; fields are those of --output json; repeatable")
	return a.watchable(c)
}

// listGroup returns a group of commands that lists if it is called without a subcommand.
func listGroup(use, short string, list *cobra.Command, others ...*cobra.Command) *cobra.Command {
	c := group(use, short, append(others, list)...)
	c.Long = short + ".\n\nWithout a subcommand: " + list.Name() + "."
	c.Annotations, c.RunE = list.Annotations, list.RunE
	c.Flags().AddFlagSet(list.Flags())
	return c
}

// printNames prints the names of the entries of a list: what other commands take as an
// argument, which is the first column unless an entry has a name.
func (a *app) printNames(list any, rows [][]string) error {
	v := reflect.ValueOf(list)
	for i, row := range rows {
		text := row[0]
		if named, ok := v.Index(i).Interface().(interface{ name() string }); ok {
			text = named.name()
		}
		if err := a.line("%s", text); err != nil {
			return err
		}
	}
	return nil
}

// filter returns the entries of a list that match all filters, and their rows.
func (a *app) filter(list any, rows [][]string) (any, [][]string, error) {
	if len(a.filters) == 0 {
		return list, rows, nil
	}
	v := reflect.ValueOf(list)
	kept, keptRows := reflect.MakeSlice(v.Type(), 0, v.Len()), [][]string{}
	for i := range v.Len() {
		text, err := json.Marshal(v.Index(i).Interface())
		if err != nil {
			return nil, nil, &failure{err: err}
		}
		var entry map[string]any
		if err := json.Unmarshal(text, &entry); err != nil {
			return nil, nil, &failure{err: err}
		}
		all := true
		for _, f := range a.filters {
			ok, err := matches(entry, v.Type().Elem(), f)
			if err != nil {
				return nil, nil, err
			}
			all = all && ok
		}
		if all {
			kept, keptRows = reflect.Append(kept, v.Index(i)), append(keptRows, rows[i])
		}
	}
	return kept.Interface(), keptRows, nil
}

// matches reports whether an entry has the value of a filter. A list matches each of
// its elements; an empty list, or a value that the node did not report, matches the empty value.
func matches(entry map[string]any, t reflect.Type, filter string) (bool, error) {
	field, want, ok := strings.Cut(filter, "=")
	field, not := strings.CutSuffix(field, "!")
	if !ok {
		return false, fmt.Errorf("--filter %q: want FIELD=VALUE or FIELD!=VALUE", filter)
	}
	var value any = entry
	for name := range strings.SplitSeq(field, ".") {
		object, _ := value.(map[string]any)
		value = object[name]
		if _, known := object[name]; !known && object != nil {
			return false, &hinted{fmt.Errorf("--filter: there is no field %q", field), didYouMean(field, jsonNames(t))}
		}
	}
	values, isList := value.([]any)
	switch {
	case !isList:
		values = []any{value}
	case len(values) == 0:
		values = []any{""}
	}
	has := false
	for _, v := range values {
		text, isText := v.(string)
		if !isText && v != nil {
			b, err := json.Marshal(v)
			if err != nil {
				return false, &failure{err: err}
			}
			text = string(b)
		}
		has = has || strings.EqualFold(text, want)
	}
	return has != not, nil
}

func jsonNames(t reflect.Type) []string {
	var all []string
	for i := range t.NumField() {
		all = append(all, t.Field(i).Tag.Get("json"))
	}
	return all
}
