package main

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/kubernetes-csi/csi-proxy/v2/internal/admin"
)

// callEntry is a call in flight in the output.
type callEntry struct {
	ID              uint64   `json:"id"`
	API             string   `json:"api"`
	Method          string   `json:"method"`
	Target          string   `json:"target"`
	Process         uint32   `json:"process"`
	Program         string   `json:"program"`
	AgeMilliseconds int64    `json:"ageMilliseconds"`
	Phase           string   `json:"phase"`
	CallerGone      bool     `json:"callerGone"`
	Win32           string   `json:"win32"`
	WaitsFor        string   `json:"waitsFor"`
	HeldBy          []uint64 `json:"heldBy"`
}

func (a *app) callsCommand() *cobra.Command {
	return a.listing(&cobra.Command{
		Use:   "calls",
		Short: "List the calls in flight",
		Long: `List the calls in flight, the oldest first: which process called what, for how long,
and what the call does: in which call of Windows it is, or for what it waits and which
call holds that. Calls whose caller gave up are there until Windows has finished.

The numbers of calls are those of the log. It uses a pipe that only administrators of
the node can open.`,
		Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			out, err := onAdmin(c.Context(), a, "calls", func(ctx context.Context, c admin.AdminClient) (*admin.ListCallsResponse, error) {
				return c.ListCalls(ctx, &admin.ListCallsRequest{})
			})
			if err != nil {
				return err
			}
			entries, rows := []callEntry{}, [][]string{}
			for _, c := range out.Calls {
				e := callEntry{c.Id, apiOf(c.Pipe), c.Method, c.Target, c.Process, c.Program, c.AgeMilliseconds, c.Phase, c.CallerGone, c.Win32, c.WaitsFor, c.HeldBy}
				entries = append(entries, e)
				rows = append(rows, []string{fmt.Sprint(e.ID), (time.Duration(e.AgeMilliseconds) * time.Millisecond).String(), e.caller(), e.API, e.Method, e.does(), e.Target})
			}
			return a.print(withLists(entries), "ID AGE CALLER API METHOD DOES TARGET", rows)
		},
	})
}

// apiOf returns the group and version of a pipe, or what else its name says.
func apiOf(pipe string) string {
	return strings.Replace(strings.TrimPrefix(pipe, "csi-proxy-"), "-", "/", 1)
}

// caller returns the calling process.
func (e callEntry) caller() string {
	switch {
	case e.CallerGone && e.Process != 0:
		return fmt.Sprintf("%d, gone", e.Process)
	case e.CallerGone:
		return "gone"
	case e.Process != 0:
		return fmt.Sprint(e.Process)
	}
	return ""
}

// does returns what the call does at the moment.
func (e callEntry) does() string {
	switch {
	case e.WaitsFor != "":
		var holders []string
		for _, id := range e.HeldBy {
			if id == 0 {
				holders = append(holders, "csi-proxy itself")
			} else {
				holders = append(holders, fmt.Sprintf("call %d", id))
			}
		}
		if holders == nil {
			return "waits for " + e.WaitsFor
		}
		return "waits for " + e.WaitsFor + ", held by " + strings.Join(holders, " and ")
	case e.Win32 != "":
		return "in " + e.Win32
	}
	return e.Phase
}
