package main

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"google.golang.org/protobuf/reflect/protoreflect"

	diskv1 "github.com/kubernetes-csi/csi-proxy/client/api/disk/v1"
	iscsiv1alpha2 "github.com/kubernetes-csi/csi-proxy/client/api/iscsi/v1alpha2"
)

// completionLimit is the time limit for completions that need the node, unless --timeout
// is given. If they fail they return nothing.
const completionLimit = time.Second

// completer completes the arguments of a command.
type completer = func(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective)

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

// completeFirst completes the first argument of a command with values from the node, and
// all arguments if many is set. list may ignore ctx, for example while it waits for a
// busy pipe, so it runs in the background and is abandoned.
func (a *app) completeFirst(many bool, list func(context.Context) []string) completer {
	return func(c *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
		if len(args) > 0 && !many {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		ctx := c.Context()
		if ctx == nil {
			ctx = context.Background()
		}
		ctx, cancel := a.withShortLimit(ctx, completionLimit)
		defer cancel()
		listed := make(chan []string, 1)
		go func() { listed <- list(ctx) }()
		var words []string
		select {
		case words = <-listed:
		case <-ctx.Done():
		}
		words = slices.DeleteFunc(words, func(w string) bool {
			word, _, _ := strings.Cut(w, "\t")
			return slices.Contains(args, word)
		})
		return words, cobra.ShellCompDirectiveNoFileComp
	}
}

// diskWords returns the numbers of the disks, described by their serial numbers.
func (a *app) diskWords(ctx context.Context) []string {
	conn, err := a.connectAPI("disk/v1")
	if err != nil {
		return nil
	}
	defer conn.Close()
	ids, err := diskv1.NewDiskClient(conn).ListDiskIDs(ctx, &diskv1.ListDiskIDsRequest{})
	if err != nil {
		return nil
	}
	var words []string
	for _, n := range slices.Sorted(maps.Keys(ids.DiskIDs)) {
		words = append(words, fmt.Sprintf("%d\t%s", n, ids.DiskIDs[n].SerialNumber))
	}
	return words
}

// portalWords returns the registered portals.
func (a *app) portalWords(ctx context.Context) []string {
	conn, err := a.connectAPI("iscsi/v1alpha2")
	if err != nil {
		return nil
	}
	defer conn.Close()
	out, err := iscsiv1alpha2.NewIscsiClient(conn).ListTargetPortals(ctx, &iscsiv1alpha2.ListTargetPortalsRequest{})
	if err != nil {
		return nil
	}
	var words []string
	for _, p := range out.TargetPortals {
		words = append(words, portalText(p))
	}
	return words
}
