package driver_test

import (
	"context"
	"errors"
	"net"
	"os/exec"
	"strings"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"

	"example.com/csi-driver/driver"
)

// startProgram starts csi-driver.exe, as on a node, and the controller, as elsewhere.
// Callers have one address for both.
func (e *env) startProgram(exe string) (err error) {
	var ends []func() error
	stop := func() error {
		var errs []error
		for _, end := range ends {
			errs = append(errs, end())
		}
		return errors.Join(errs...)
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, stop())
		}
	}()

	node := freeAddress(e.t)
	cmd := exec.Command(exe, "-endpoint", "tcp://"+node, "-node-id", nodeID, "-v", "9")
	cmd.Stderr = &e.program
	if err := cmd.Start(); err != nil {
		return err
	}
	running, ended := context.WithCancel(context.Background())
	go func() {
		cmd.Wait() // returns that it was killed
		ended()
	}()
	ends = append(ends, func() error {
		cmd.Process.Kill()
		<-running.Done()
		return nil
	})
	serve := func(address string, serve func(context.Context, net.Listener) error) error {
		l, err := net.Listen("tcp", address)
		if err != nil {
			return err
		}
		ctx, cancel := context.WithCancel(context.Background())
		ended := make(chan error, 1)
		go func() { ended <- serve(ctx, l) }()
		ends = append(ends, func() error {
			cancel()
			return <-ended
		})
		return nil
	}
	controller := freeAddress(e.t)
	if err := serve(controller, driver.New(driver.Config{Version: "test", Storage: e.storage, Log: e.log}).Serve); err != nil {
		return err
	}
	toNode, err := dial(node)
	if err != nil {
		return err
	}
	toController, err := dial(controller)
	if err != nil {
		return errors.Join(err, toNode.Close())
	}
	ends = append(ends, toNode.Close, toController.Close)
	err = serve(e.address, func(ctx context.Context, l net.Listener) error { return forward(ctx, l, running, toNode, toController) })
	e.stopDriver = stop
	return err
}

func dial(address string) (*grpc.ClientConn, error) {
	return grpc.NewClient(address, grpc.WithTransportCredentials(insecure.NewCredentials()), grpc.WithDefaultCallOptions(grpc.WaitForReady(true), grpc.ForceCodec(raw{})))
}

// forward serves CSI on l until ctx ends. It passes the calls of the Node service to one
// connection while the program runs, and all others to another.
func forward(ctx context.Context, l net.Listener, running context.Context, node, controller *grpc.ClientConn) error {
	s := grpc.NewServer(grpc.ForceServerCodec(raw{}), grpc.UnknownServiceHandler(func(_ any, stream grpc.ServerStream) error {
		method, _ := grpc.MethodFromServerStream(stream)
		to := controller
		if strings.HasPrefix(method, "/csi.v1.Node/") {
			to = node
		}
		var in, out []byte
		if err := stream.RecvMsg(&in); err != nil {
			return err
		}
		ctx, cancel := context.WithCancel(stream.Context())
		defer cancel()
		if to == node {
			defer context.AfterFunc(running, cancel)()
		}
		err := to.Invoke(ctx, method, &in, &out)
		if err != nil && to == node && running.Err() != nil {
			return status.Error(codes.DataLoss, "the program has ended") // which is not repeated
		}
		if err != nil {
			return err
		}
		return stream.SendMsg(&out)
	}))
	defer context.AfterFunc(ctx, s.GracefulStop)()
	return s.Serve(l)
}

// raw is the codec of messages that are passed on as they are.
type raw struct{}

func (raw) Name() string { return "proto" }

func (raw) Marshal(v any) ([]byte, error) { return *v.(*[]byte), nil }

func (raw) Unmarshal(b []byte, v any) error {
	*v.(*[]byte) = append([]byte(nil), b...)
	return nil
}
