package main

import (
	"strings"

	"github.com/spf13/cobra"
	"google.golang.org/protobuf/reflect/protoreflect"
)

// completeCall completes the group and version, the method, and the fields of a call.
func completeCall(_ *cobra.Command, args []string, typed string) ([]string, cobra.ShellCompDirective) {
	var words []string
	if len(args) == 0 {
		for _, svc := range catalog() {
			words = append(words, svc.String())
		}
		return words, cobra.ShellCompDirectiveNoFileComp
	}
	svc, err := findAPI(args[0])
	if err != nil {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	if len(args) == 1 {
		return svc.methods(), cobra.ShellCompDirectiveNoFileComp
	}
	if strings.HasPrefix(typed, "@") {
		return nil, cobra.ShellCompDirectiveDefault
	}
	method, err := svc.method(args[1])
	if err != nil {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	return fieldWords(method.Input(), ""), cobra.ShellCompDirectiveNoFileComp | cobra.ShellCompDirectiveNoSpace
}

// fieldWords returns the fields of a request as FIELD=, and nested fields as FIELD.FIELD=.
func fieldWords(d protoreflect.MessageDescriptor, before string) []string {
	var words []string
	for i := range d.Fields().Len() {
		f := d.Fields().Get(i)
		name := before + string(f.Name())
		switch {
		case f.IsMap() || f.IsList():
		case f.Message() != nil:
			words = append(words, fieldWords(f.Message(), name+".")...)
		default:
			words = append(words, name+"=\t"+f.Kind().String())
		}
	}
	return words
}
