// Package server serves package admin over the services of a node.
package server

import (
	"context"
	"os"
	"time"

	"github.com/kubernetes-csi/csi-proxy/v2/internal/admin"
	"github.com/kubernetes-csi/csi-proxy/v2/internal/apiserver/calls"
	"github.com/kubernetes-csi/csi-proxy/v2/internal/apiserver/pipes"
	"github.com/kubernetes-csi/csi-proxy/v2/internal/apiserver/serve"
	"github.com/kubernetes-csi/csi-proxy/v2/internal/inflight"
	"github.com/kubernetes-csi/csi-proxy/v2/internal/node"
	diskapi "github.com/kubernetes-csi/csi-proxy/v2/pkg/disk/hostapi"
	"github.com/kubernetes-csi/csi-proxy/v2/pkg/hosterr"
)

// Disks is the part of the disk service that only administrators may use.
type Disks interface {
	Clear(ctx context.Context, number uint32, c diskapi.Clearing) (diskapi.Cleared, error)
	// Node returns the node of the disks.
	Node() *node.Node
}

// Server is the service.
type Server struct {
	admin.UnimplementedAdminServer
	disks Disks
	calls *calls.Calls
	stop  func(context.Context) error
	pod   string // of this process, or empty
	// problems returns what the process cannot do, such as write its log; nil if that is not known.
	problems func() []*admin.Problem

	questions questions
}

var _ admin.AdminServer = (*Server)(nil)

// Pipe returns the pipe of administrators, with the calls of its server. Its rights are those of [pipes.Listen],
// whatever the rights of the pipes of drivers are. stop begins to stop the server, for a call. problems, if it is not nil, returns what
// the process cannot do, such as write its log.
func Pipe(disks Disks, calls *calls.Calls, stop func(context.Context) error, problems func() []*admin.Problem) serve.Pipe {
	return serve.Pipe{
		Name: admin.Pipe, Desc: &admin.Admin_ServiceDesc, Impl: &Server{disks: disks, calls: calls, stop: stop, pod: os.Getenv(admin.PodVariable), problems: problems},
		Changes: func(method string) bool { return method == "ClearDisk" },
		Listen:  pipes.Listen,
		Stops:   "Stop",
		Looks:   true,
	}
}

// Stop implements [admin.AdminServer].
func (s *Server) Stop(ctx context.Context, in *admin.StopRequest) (*admin.StopResponse, error) {
	if pod := in.GetPod(); pod != "" && pod != s.pod {
		return nil, hosterr.Text(hosterr.ErrFailedPrecondition, "another csi-proxy serves, not that of pod %s; it was not stopped", pod)
	}
	if err := s.stop(ctx); err != nil {
		return nil, hosterr.Wrap("stop", "csi-proxy", err)
	}
	select {
	case <-s.calls.None():
		return &admin.StopResponse{}, nil
	case <-ctx.Done():
		return nil, hosterr.Wrap("wait for the calls of", "csi-proxy", ctx.Err())
	}
}

// ListCalls implements [admin.AdminServer].
func (s *Server) ListCalls(ctx context.Context, in *admin.ListCallsRequest) (*admin.ListCallsResponse, error) {
	if in.Failed {
		return &admin.ListCallsResponse{Failed: s.failed()}, nil
	}
	own := inflight.Of(ctx)
	out := &admin.ListCallsResponse{}
	for _, c := range s.calls.List() {
		if own != nil && c.ID == own.ID {
			continue
		}
		out.Calls = append(out.Calls, &admin.Call{
			Id: c.ID, Pipe: c.Pipe, Method: c.Method, Target: c.Target, Process: c.Process, Program: c.Program,
			AgeMilliseconds: c.Age.Milliseconds(), Phase: string(c.Phase), CallerGone: c.Gone, Win32: c.Win32, WaitsFor: c.WaitsFor, HeldBy: c.HeldBy,
			Changes: calls.Changes(c.Method),
		})
	}
	return out, nil
}

func (s *Server) failed() []*admin.FailedCall {
	var all []*admin.FailedCall
	for _, c := range s.calls.Failed() {
		out := &admin.FailedCall{
			Call: &admin.Call{
				Id: c.ID, Pipe: c.Pipe, Method: c.Method, Target: c.Target, Process: c.Process, Program: c.Program,
				AgeMilliseconds: time.Since(c.At).Milliseconds(), CallerGone: c.Gone, Changes: calls.Changes(c.Method),
			},
			TookMilliseconds: c.Took.Milliseconds(), Code: c.Code.String(), Error: c.Error, Times: uint32(c.Times), Overcome: c.Overcome,
		}
		for _, w := range c.Win32 {
			out.Win32 = append(out.Win32, &admin.FailedWin32{AgeMilliseconds: time.Since(w.At).Milliseconds(), Call: w.Call, Code: w.Code, Object: w.Object, Error: w.Error})
		}
		all = append(all, out)
	}
	return all
}

// InspectDisk implements [admin.AdminServer].
func (s *Server) InspectDisk(ctx context.Context, in *admin.InspectDiskRequest) (*admin.DiskContent, error) {
	return s.clear(ctx, in.DiskNumber, diskapi.Clearing{Identity: in.Serial, Partition: in.Partition, Behind: in.Behind, DryRun: true})
}

// ClearDisk implements [admin.AdminServer].
func (s *Server) ClearDisk(ctx context.Context, in *admin.ClearDiskRequest) (*admin.DiskContent, error) {
	if len(in.ProtoReflect().GetUnknown()) > 0 {
		return nil, hosterr.Text(hosterr.ErrInvalid, "the request has fields that this csi-proxy does not know: the caller is of another release; nothing was changed")
	}
	return s.clear(ctx, in.DiskNumber, diskapi.Clearing{Identity: in.Serial, Partition: in.Partition, Behind: in.Behind})
}

func (s *Server) clear(ctx context.Context, disk uint32, what diskapi.Clearing) (*admin.DiskContent, error) {
	if s.disks == nil {
		return nil, hosterr.Text(hosterr.ErrUnimplemented, "this disk service cannot clear disks")
	}
	c, err := s.disks.Clear(ctx, disk, what)
	if err != nil {
		return nil, err
	}
	out := &admin.DiskContent{Serial: c.IDs.SerialNumber, Page83: c.IDs.Page83, SizeBytes: c.SizeBytes, WrittenBytes: c.WrittenBytes}
	for _, f := range c.Found {
		out.Found = append(out.Found, &admin.Content{OffsetBytes: f.OffsetBytes, LengthBytes: f.LengthBytes, What: f.What})
	}
	return out, nil
}
