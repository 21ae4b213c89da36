package main

import (
	"context"
	"fmt"
	"os"
	"slices"
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
	failed := false
	c := a.listing(&cobra.Command{
		Use:   "calls",
		Short: "List the calls in flight, or the last that failed",
		Long: `List the calls in flight, the oldest first: which process called what, for how long,
and what the call does: in which call of Windows it is, or for what it waits and which
call holds that. Calls whose caller gave up are there until Windows has finished.

With --failed it lists the last calls that failed, the last one first, with what of
Windows failed while they ran. Equal failures are one entry. csi-proxy keeps 32 of them in
memory, until it ends.

The numbers of calls are those of the log. It uses a pipe that only administrators of
the node can open.`,
		Args: cobra.NoArgs,
		Example: `  csi-proxyctl calls
  csi-proxyctl calls --failed -o json`,
		RunE: func(c *cobra.Command, _ []string) error {
			if failed {
				return a.printFailed(c.Context())
			}
			calls, err := a.inFlight(c.Context())
			if err != nil {
				return err
			}
			entries, rows := []callEntry{}, [][]string{}
			for _, c := range calls {
				e := callEntry{c.Id, apiOf(c.Pipe), c.Method, c.Target, c.Process, c.Program, c.AgeMilliseconds, c.Phase, c.CallerGone, c.Win32, c.WaitsFor, c.HeldBy}
				entries = append(entries, e)
				rows = append(rows, []string{fmt.Sprint(e.ID), (time.Duration(e.AgeMilliseconds) * time.Millisecond).String(), e.caller(), e.API, e.Method, e.does(), e.Target, e.Program})
			}
			return a.print(withLists(entries), "ID AGE CALLER API METHOD DOES TARGET | PROGRAM", rows)
		},
	})
	c.Flags().BoolVar(&failed, "failed", false, "list the last calls that failed")
	return c
}

// failedEntry is a call that failed in the output.
type failedEntry struct {
	ID               uint64       `json:"id"`
	API              string       `json:"api"`
	Method           string       `json:"method"`
	Target           string       `json:"target"`
	Process          uint32       `json:"process"`
	Program          string       `json:"program"`
	AgeMilliseconds  int64        `json:"ageMilliseconds"`
	TookMilliseconds int64        `json:"tookMilliseconds"`
	CallerGone       bool         `json:"callerGone"`
	Code             string       `json:"code"`
	Error            string       `json:"error"`
	Times            uint32       `json:"times"`
	Overcome         bool         `json:"overcome"`
	Win32            []win32Entry `json:"win32"`
}

// win32Entry is a Win32 call that failed in the output.
type win32Entry struct {
	AgeMilliseconds int64  `json:"ageMilliseconds"`
	Call            string `json:"call"`
	Code            string `json:"code"`
	Object          string `json:"object"`
	Error           string `json:"error"`
}

// printFailed prints the last calls that failed.
func (a *app) printFailed(ctx context.Context) error {
	failed, err := a.lastFailed(ctx)
	if err != nil {
		return err
	}
	entries, rows := []failedEntry{}, [][]string{}
	for _, f := range failed {
		c := f.GetCall()
		e := failedEntry{c.GetId(), apiOf(c.GetPipe()), c.GetMethod(), c.GetTarget(), c.GetProcess(), c.GetProgram(), c.GetAgeMilliseconds(), f.TookMilliseconds, c.GetCallerGone(), f.Code, f.Error, f.Times, f.Overcome, nil}
		for _, w := range f.Win32 {
			e.Win32 = append(e.Win32, win32Entry{w.AgeMilliseconds, w.Call, w.Code, w.Object, w.Error})
		}
		entries = append(entries, e)
		rows = append(rows, []string{
			fmt.Sprint(e.ID), (time.Duration(e.AgeMilliseconds) * time.Millisecond).String(), callEntry{Process: e.Process, CallerGone: e.CallerGone}.caller(),
			e.API, e.Method, e.Code, fmt.Sprint(e.Times), e.Target, e.Error, e.cause(), e.Program,
		})
	}
	return a.print(withLists(entries), "ID AGE CALLER API METHOD RESULT TIMES TARGET ERROR | WIN32 PROGRAM", rows)
}

// cause returns the Win32 call whose error ends that of the call, or else the last one that
// failed, which may be an expected failure after the real one.
func (e failedEntry) cause() string {
	if len(e.Win32) == 0 {
		return ""
	}
	found := e.Win32[len(e.Win32)-1]
	for _, w := range slices.Backward(e.Win32) {
		if w.Error != "" && strings.HasSuffix(e.Error, w.Error) {
			found = w
			break
		}
	}
	return strings.Join(strings.Fields(found.Call+" "+found.Code), " ") + ": " + found.Error
}

// inFlight returns the calls in flight, the oldest first.
func (a *app) inFlight(ctx context.Context) ([]*admin.Call, error) {
	ctx, cancel := a.withShortLimit(ctx, answerLimit)
	defer cancel()
	out, err := onAdmin(ctx, a, "calls", func(ctx context.Context, c admin.AdminClient) (*admin.ListCallsResponse, error) {
		return c.ListCalls(ctx, &admin.ListCallsRequest{})
	})
	return out.GetCalls(), err
}

// othersInFlight returns the calls in flight of other processes.
func (a *app) othersInFlight(ctx context.Context) ([]*admin.Call, error) {
	all, err := a.inFlight(ctx)
	return slices.DeleteFunc(all, func(c *admin.Call) bool { return c.Process == uint32(os.Getpid()) }), err
}

// lastFailed returns the last calls that failed, the last one first.
func (a *app) lastFailed(ctx context.Context) ([]*admin.FailedCall, error) {
	ctx, cancel := a.withShortLimit(ctx, answerLimit)
	defer cancel()
	out, err := onAdmin(ctx, a, "calls", func(ctx context.Context, c admin.AdminClient) (*admin.ListCallsResponse, error) {
		return c.ListCalls(ctx, &admin.ListCallsRequest{Failed: true})
	})
	return out.GetFailed(), err
}

// holderOf returns the call that c ultimately waits for, or nil if that is not known.
func holderOf(calls []*admin.Call, c *admin.Call) *admin.Call {
	for range calls {
		if c.WaitsFor == "" {
			return c
		}
		at := slices.IndexFunc(calls, func(o *admin.Call) bool { return o.Id != 0 && slices.Contains(c.HeldBy, o.Id) })
		if at < 0 {
			return nil
		}
		c = calls[at]
	}
	return nil
}

// apiOf returns the name of a pipe as users write it, such as disk/v1.
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

// does returns what the call is doing.
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
