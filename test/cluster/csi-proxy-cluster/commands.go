package main

import (
	"context"
	"encoding/json"
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
	"syscall"
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
	lock, err := makeDirectory()
	if err != nil {
		return err
	}
	defer lock.Close()
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
	cmd := exec.Command("setsid", append([]string{self, background, fmt.Sprintf("--nodes=%d", o.nodes), "--source=" + source, "--proxy=" + o.proxy}, o.args...)...)
	cmd.Stdout, cmd.Stderr = log, log
	cmd.ExtraFiles = []*os.File{lock}
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
			return errors.Join(fmt.Errorf("the cluster does not start: %s\nthe output of its programs is in %s; csi-proxy-cluster down removes it", strings.TrimSpace(string(text)), directory()), err)
		case <-ctx.Done():
			_ = cmd.Process.Signal(os.Interrupt) // fails if it has ended
			<-ended
			_ = lock.Close() // this process holds it, too
			return errors.Join(errors.New("interrupted; the cluster was not started"), removeWhenFree(5*time.Second))
		case <-time.After(50 * time.Millisecond):
		}
	}
}

// ask returns a command that prints what the process in the background answers.
func ask(name string) func(context.Context, *options) error {
	return func(ctx context.Context, o *options) error {
		argument := ""
		if len(o.args) > 0 {
			argument = o.args[0]
		}
		out, err := call(ctx, name, argument)
		_, writing := o.stdout.Write(out)
		return errors.Join(err, writing)
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

// down ends the process in the background, and removes its files. It removes those of one that
// has not started, or was killed, too.
func down(ctx context.Context, o *options) error {
	switch _, err := call(ctx, "down", ""); {
	case errors.Is(err, errNoCluster):
		if _, there := os.Lstat(marker()); there != nil {
			return err
		}
		if err := removeWhenFree(5 * time.Second); err != nil { // programs of one that was killed are ending
			return err
		}
		fmt.Fprintf(o.stdout, "No cluster runs. %s, which an earlier one has left, is removed.\n", directory())
		return nil
	case err != nil:
		return err
	}
	return removeWhenFree(2 * time.Minute)
}

// call calls the process in the background. There may be output with an error.
func call(ctx context.Context, name, argument string) ([]byte, error) {
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
	q, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://cluster/"+name+"?argument="+url.QueryEscape(argument), nil)
	if err != nil {
		return nil, err
	}
	a, err := client.Do(q)
	for range 50 { // a process that was killed has its socket for a moment longer
		if !errors.Is(err, syscall.ECONNRESET) && !errors.Is(err, io.EOF) {
			break
		}
		time.Sleep(100 * time.Millisecond)
		a, err = client.Do(q)
	}
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
	var said answer
	if err := json.NewDecoder(a.Body).Decode(&said); err != nil {
		return nil, fmt.Errorf("%s: the cluster's answer, %s, cannot be read: %w", name, a.Status, err)
	}
	if said.Error != "" {
		err = errors.New(said.Error)
	}
	return []byte(said.Output), err
}
