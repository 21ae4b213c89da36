package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"github.com/kubernetes-csi/csi-proxy/v2/test/cluster/programs"
)

// errNoCluster is the error of a call if no process is in the background.
var errNoCluster = errors.New("no cluster runs")

// up builds the programs, and starts the process in the background.
func up(ctx context.Context, o *options) error {
	switch _, err := call(ctx, "ready", ""); {
	case err == nil:
		return fmt.Errorf("a cluster runs already in %s; end it with: csi-proxy-cluster down", directory())
	case !errors.Is(err, errNoCluster):
		return err
	}
	source, err := programs.Source(o.source)
	if err != nil {
		return err
	}
	fmt.Fprintln(o.stdout, "Building what is not built yet; Kubernetes takes minutes, once.")
	if _, err := programs.Build(ctx, source, o.stdout); err != nil {
		return err
	}
	if err := makeDirectory(); err != nil {
		return err
	}
	self, err := os.Executable()
	if err != nil {
		return err
	}
	log, err := os.Create(logFile())
	if err != nil {
		return err
	}
	defer log.Close()
	started := time.Now()
	// setsid: it outlives this command and its terminal.
	cmd := exec.Command("setsid", append([]string{self, background, fmt.Sprintf("--nodes=%d", o.nodes), "--source=" + source}, o.args...)...)
	cmd.Stdout, cmd.Stderr = log, log
	if err := cmd.Start(); err != nil {
		return err
	}
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	for {
		if _, err := call(ctx, "ready", ""); err == nil {
			fmt.Fprintf(o.stdout, "%d nodes are ready, after %.1f s. Other programs reach the cluster with\n\n  export KUBECONFIG=%s\n", o.nodes, time.Since(started).Seconds(), filepath.Join(directory(), "kubeconfig"))
			return nil
		}
		select {
		case <-ended:
			text, err := os.ReadFile(logFile())
			return errors.Join(fmt.Errorf("the cluster does not start: %s", strings.TrimSpace(string(text))), err)
		case <-ctx.Done():
			_ = cmd.Process.Signal(os.Interrupt) // fails if it has ended
			<-ended
			return errors.Join(errors.New("interrupted; the cluster was not started"), removeDirectory())
		case <-time.After(50 * time.Millisecond):
		}
	}
}

// ask returns a command that prints what the process in the background answers.
func ask(name string) func(context.Context, *options) error {
	return func(ctx context.Context, o *options) error {
		node := ""
		if len(o.args) > 0 {
			node = o.args[0]
		}
		out, err := call(ctx, name, node)
		if err != nil {
			return err
		}
		_, err = o.stdout.Write(out)
		return err
	}
}

// kubectl runs kubectl, which is one of the programs in kubernetes.
func kubectl(ctx context.Context, o *options) error {
	exe, err := call(ctx, "kubernetes", "")
	if err != nil {
		return err
	}
	cmd := exec.CommandContext(ctx, string(exe), append([]string{"kubectl"}, o.args...)...)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, o.stdout, o.stderr
	cmd.Env = append(os.Environ(), "KUBECONFIG="+filepath.Join(directory(), "kubeconfig"))
	return cmd.Run()
}

// down ends the process in the background, and removes its files.
func down(ctx context.Context, _ *options) error {
	if _, err := call(ctx, "down", ""); err != nil {
		return err
	}
	// The process removes its socket last.
	for end := time.Now().Add(2 * time.Minute); ; time.Sleep(50 * time.Millisecond) {
		if _, err := os.Lstat(control()); errors.Is(err, fs.ErrNotExist) {
			return removeDirectory()
		}
		if time.Now().After(end) {
			return fmt.Errorf("the cluster has not ended after two minutes; its log is %s", logFile())
		}
	}
}

// call calls the process in the background.
func call(ctx context.Context, name, node string) ([]byte, error) {
	none := fmt.Errorf("%w in %s; start one with: csi-proxy-cluster up", errNoCluster, directory())
	switch err := checkDirectory(); {
	case errors.Is(err, fs.ErrNotExist):
		return nil, none
	case err != nil:
		return nil, err
	}
	client := &http.Client{Transport: &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, "unix", control())
	}}}
	defer client.CloseIdleConnections()
	q, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://cluster/"+name+"?node="+url.QueryEscape(node), nil)
	if err != nil {
		return nil, err
	}
	a, err := client.Do(q)
	var op *net.OpError
	switch {
	case err == nil:
	case ctx.Err() != nil:
		return nil, fmt.Errorf("%s: %w", name, ctx.Err())
	case errors.As(err, &op) && op.Op == "dial":
		return nil, none
	default:
		return nil, fmt.Errorf("%s: the cluster does not answer: %w; its log is %s", name, err, logFile())
	}
	defer a.Body.Close()
	out, err := io.ReadAll(a.Body)
	if err == nil && a.StatusCode != http.StatusOK {
		err = errors.New(string(out))
	}
	return out, err
}
