package driver_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os/exec"
	"regexp"
	"strings"
	"time"

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

	cmd := exec.Command(exe, "-endpoint", "tcp://127.0.0.1:0", "-node-id", nodeID, "-v", "9")
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
	serve := func(l net.Listener, serve func(context.Context, net.Listener) error) {
		ctx, cancel := context.WithCancel(context.Background())
		ended := make(chan error, 1)
		go func() { ended <- serve(ctx, l) }()
		ends = append(ends, func() error {
			cancel()
			return <-ended
		})
	}
	controller, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	serve(controller, driver.New(driver.Config{Version: "test", Storage: e.storage, Log: e.log}).Serve)
	node, err := listensOn(running, &e.program)
	if err != nil {
		return err
	}
	toNode, err := dial(node)
	if err != nil {
		return err
	}
	toController, err := dial(controller.Addr().String())
	if err != nil {
		return errors.Join(err, toNode.Close())
	}
	ends = append(ends, toNode.Close, toController.Close)
	l, err := e.listen()
	if err != nil {
		return err
	}
	serve(l, func(ctx context.Context, l net.Listener) error { return forward(ctx, l, running, toNode, toController) })
	e.stopDriver = stop
	return nil
}

// listensOn waits while the program runs until its output has the address on which it listens.
func listensOn(running context.Context, output *buffer) (string, error) {
	ctx, cancel := context.WithTimeout(running, time.Minute)
	defer cancel()
	line := regexp.MustCompile(`"Serving CSI".* address="([^"]+)"`)
	for {
		if found := line.FindStringSubmatch(output.String()); found != nil {
			return found[1], nil
		}
		select {
		case <-ctx.Done():
			return "", fmt.Errorf("the program has ended, or does not listen after a minute; its output:\n%s", output)
		case <-time.After(10 * time.Millisecond):
		}
	}
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
