package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/kubernetes-csi/csi-proxy/client/pipe"
	"github.com/kubernetes-csi/csi-proxy/v2/pkg/remote"

	"github.com/kubernetes-csi/csi-proxy/lab/cloud"
	"github.com/kubernetes-csi/csi-proxy/lab/sanity"
	"github.com/kubernetes-csi/csi-proxy/lab/story"
)

// starting is how long a lab may take to start.
const starting = 3 * time.Minute

// ending is how long a lab may take to end.
const ending = 30 * time.Second

// up starts the process in the background.
func up(ctx context.Context, o *options) error {
	switch _, err := ask(ctx, "state", nil); {
	case err == nil:
		return fmt.Errorf("a lab runs already in %s; end it with: csi-proxy-lab down", directory())
	case !errors.Is(err, errNoLab):
		return err
	}
	if err := makeDirectory(); err != nil {
		return err
	}
	self, err := os.Executable()
	if err != nil {
		return err
	}
	relay := o.relay
	if relay == "" {
		beside := filepath.Join(filepath.Dir(self), "csi-proxy-relay.exe")
		if _, err := os.Stat(beside); err == nil {
			relay = beside
		}
	}
	log, err := os.Create(logFile())
	if err != nil {
		return err
	}
	defer log.Close()
	start := time.Now()
	// setsid: it outlives this command and its terminal.
	cmd := exec.Command("setsid", self, background, "--relay="+relay, fmt.Sprintf("--plain=%t", o.plain), fmt.Sprintf("--beta=%t", o.beta))
	cmd.Stdout, cmd.Stderr = log, log
	if err := cmd.Start(); err != nil {
		return err
	}
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	limit := time.After(starting)
	for {
		if _, err := ask(ctx, "state", nil); err == nil {
			break
		}
		select {
		case <-ended:
			text, err := os.ReadFile(logFile())
			return errors.Join(errors.New("the lab does not start: "+strings.TrimPrefix(strings.TrimSpace(string(text)), "csi-proxy-lab: ")), err, removeDirectory())
		case <-limit:
			return errors.Join(fmt.Errorf("the lab has not started after %v; its log is %s", starting, logFile()), cmd.Process.Kill())
		case <-ctx.Done():
			return interrupt(cmd.Process, ended)
		case <-time.After(50 * time.Millisecond):
		}
	}
	fmt.Fprintf(o.stdout, "The lab is up, after %.1f s. csi-proxyctl reaches its node with\n\n  export %s=%s\n", time.Since(start).Seconds(), pipe.DirVariable, quote(pipes()))
	return nil
}

// interrupt ends a lab that starts, and removes its files.
func interrupt(p *os.Process, ended <-chan error) error {
	_ = p.Signal(syscall.SIGTERM) // fails if it has ended
	select {
	case <-ended:
	case <-time.After(ending):
		_ = p.Kill() // Wine ends with it
		<-ended
	}
	return errors.Join(errors.New("interrupted; the lab was not started"), removeDirectory())
}

// quote returns a word of a shell command.
func quote(text string) string { return "'" + strings.ReplaceAll(text, "'", `'\''`) + "'" }

func runDriver(ctx context.Context, o *options) error {
	s, err := current(ctx, o)
	if err != nil {
		return err
	}
	exe, err := filepath.Abs(o.args[0])
	if err != nil {
		return err
	}
	start := time.Now()
	if _, err := ask(ctx, "run", request{Exe: exe, Args: o.args[1:], Env: append(s.Env, o.env...)}); err != nil {
		return err
	}
	if s, err = current(ctx, o); err != nil {
		return err
	}
	fmt.Fprintf(o.stdout, "%s serves CSI on %s, after %.1f s.\n", filepath.Base(exe), s.Endpoint, time.Since(start).Seconds())
	return nil
}

// driven returns the state of a lab with a driver and a cloud, and CSI Proxy's file group.
func driven(ctx context.Context, o *options) (state, *remote.Filesystem, error) {
	s, err := current(ctx, o)
	switch {
	case err != nil:
		return s, nil, err
	case s.Endpoint == "":
		return s, nil, errors.New("no driver runs; start one with: csi-proxy-lab run DRIVER.exe (csi-proxy-lab logs shows the output of the last one)")
	case s.Cloud == "":
		return s, nil, fmt.Errorf("no cloud attaches disks; name one with --cloud: %s", strings.Join(clouds(), ", "))
	}
	if err := os.Setenv(pipe.DirVariable, pipes()); err != nil {
		return s, nil, err
	}
	files, err := remote.NewFilesystem(ctx)
	return s, files, err
}

func runSanity(ctx context.Context, o *options) error {
	s, files, err := driven(ctx, o)
	if err != nil {
		return err
	}
	defer files.Close()
	preset, err := cloud.Named(s.Cloud)
	if err != nil {
		return err
	}
	report := io.Discard
	if o.verbose {
		report = o.stdout
	}
	start := time.Now()
	results, err := sanity.Run(report, sanity.Suite{Endpoint: s.Endpoint, Controller: s.Controller, Files: files, VolumeID: preset.VolumeID})
	if err != nil {
		return err
	}
	failed := results[0].In(sanity.Failed)
	for _, spec := range failed {
		fmt.Fprintf(o.stdout, "FAILED %s\n  %s\n", spec.Name, strings.ReplaceAll(strings.TrimSpace(spec.Message), "\n", "\n  "))
	}
	for _, dir := range results[0].Left {
		fmt.Fprintf(o.stdout, "left on the node: %s\n", dir)
	}
	fmt.Fprintf(o.stdout, "csi-sanity: %s, in %.1f s\n", results[0], time.Since(start).Seconds())
	if len(failed) > 0 {
		return fmt.Errorf("%d specs of csi-sanity failed", len(failed))
	}
	return nil
}

func runStory(ctx context.Context, o *options) error {
	s, files, err := driven(ctx, o)
	if err != nil {
		return err
	}
	defer files.Close()
	steps, err := story.Run(ctx, story.Config{Endpoint: s.Endpoint, Controller: s.Controller, Files: files, Name: fmt.Sprintf("story-%d", time.Now().UnixNano())})
	for _, step := range steps {
		fmt.Fprintln(o.stdout, step)
	}
	return err
}

// show returns a command that prints what the lab answers.
func show(ctx context.Context, o *options, name string) error {
	out, err := ask(ctx, name, nil)
	if err != nil {
		return err
	}
	_, err = o.stdout.Write(out)
	return err
}

func logs(ctx context.Context, o *options) error  { return show(ctx, o, "logs") }
func files(ctx context.Context, o *options) error { return show(ctx, o, "files") }
func kill(ctx context.Context, o *options) error  { return show(ctx, o, "kill") }

func down(ctx context.Context, o *options) error {
	s, err := current(ctx, o)
	if err != nil {
		return err
	}
	if _, err := ask(ctx, "down", nil); err != nil {
		return err
	}
	for deadline := time.Now().Add(ending); runs(s.Process); time.Sleep(20 * time.Millisecond) {
		if time.Now().After(deadline) {
			return fmt.Errorf("the lab's process %d still runs after %v; its log is %s", s.Process, ending, logFile())
		}
	}
	return removeDirectory()
}

// runs reports whether a process runs. One that has ended, and whose parent does not wait
// for it, does not run.
func runs(pid int) bool {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return false
	}
	// The state is after the name, which may have spaces and parentheses.
	_, rest, _ := strings.Cut(string(stat[max(0, bytes.LastIndexByte(stat, ')')):]), " ")
	return !strings.HasPrefix(rest, "Z") && !strings.HasPrefix(rest, "X")
}
