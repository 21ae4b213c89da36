package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/kubernetes-csi/csi-proxy/v2/pkg/filesystem"

	"github.com/kubernetes-csi/csi-proxy/lab/cloud"
	"github.com/kubernetes-csi/csi-proxy/lab/sanity"
	"github.com/kubernetes-csi/csi-proxy/lab/storageclass"
	"github.com/kubernetes-csi/csi-proxy/lab/story"
)

func runDriver(ctx context.Context, o *options) error {
	s, err := current(ctx, o)
	if err != nil {
		return err
	}
	exe, err := filepath.Abs(o.args[0])
	if err != nil {
		return err
	}
	files, err := entries("--file", o.files)
	if err != nil {
		return err
	}
	for path, file := range files {
		content, err := os.ReadFile(file)
		if err != nil {
			return fmt.Errorf("--file %s=%s: %w", path, file, err)
		}
		files[path] = string(content)
	}
	start := time.Now()
	out, err := ask(ctx, "run", request{Exe: exe, Args: o.args[1:], Env: append(s.Env, o.env...), Files: files})
	if err != nil {
		return err
	}
	if s, err = current(ctx, o); err != nil {
		return err
	}
	if s.Endpoint == "" {
		fmt.Fprintf(o.stdout, "%s%s ended, after %.1f s.\n", out, filepath.Base(exe), time.Since(start).Seconds())
		return nil
	}
	fmt.Fprintf(o.stdout, "%s serves CSI on %s, after %.1f s.\n", filepath.Base(exe), s.Endpoint, time.Since(start).Seconds())
	return nil
}

// driven returns the state of a lab with a driver, its cloud, and what the calls get in it.
func driven(ctx context.Context, o *options) (s state, preset cloud.Cloud, c storageclass.Class, err error) {
	if s, err = current(ctx, o); err != nil {
		return s, preset, c, err
	}
	switch {
	case s.Endpoint == "":
		err = errors.New("no driver runs; start one with: csi-proxy-lab run DRIVER.exe (csi-proxy-lab logs shows the output of the last one)")
	case s.Cloud == "":
		err = fmt.Errorf("no cloud attaches disks; name one with --cloud: %s", strings.Join(clouds(), ", "))
	}
	if err != nil {
		return s, preset, c, err
	}
	if preset, err = cloud.Named(s.Cloud); err == nil {
		c, err = o.class.read(preset)
	}
	return s, preset, c, err
}

func runSanity(ctx context.Context, o *options) error {
	s, preset, c, err := driven(ctx, o)
	if err != nil {
		return err
	}
	report, err := os.Create(filepath.Join(os.Getenv(variable), "csi-sanity.txt"))
	if err != nil {
		return err
	}
	defer report.Close()
	start := time.Now()
	results, err := sanity.Run(report, sanity.Suite{Endpoint: s.Endpoint, Controller: s.Controller, Files: kubelet{}, VolumeID: preset.VolumeID, Class: c})
	if err != nil {
		return err
	}
	failed := results[0].In(sanity.Failed)
	for _, spec := range failed {
		fmt.Fprintln(o.stdout, spec)
	}
	for _, dir := range results[0].Left {
		fmt.Fprintf(o.stdout, "left on the node: %s\n", dir)
	}
	fmt.Fprintf(o.stdout, "csi-sanity: %s, in %.1f s\n", results[0], time.Since(start).Seconds())
	if len(failed) > 0 {
		return fmt.Errorf("%d specs of csi-sanity failed; its report is %s", len(failed), report.Name())
	}
	return nil
}

func runStory(ctx context.Context, o *options) error {
	s, _, c, err := driven(ctx, o)
	if err != nil {
		return err
	}
	before, err := entries("--before", o.before)
	if err != nil {
		return err
	}
	steps, err := story.Run(ctx, story.Config{
		Before: func(step string) error {
			command := before[step]
			delete(before, step)
			if command == "" {
				return nil
			}
			out, err := exec.CommandContext(ctx, "sh", "-c", command).CombinedOutput()
			if err != nil {
				return fmt.Errorf("%s: %w: %s", command, err, bytes.TrimSpace(out))
			}
			return nil
		},
		Endpoint: s.Endpoint, Controller: s.Controller, Files: kubelet{}, Pod: pod{ctx}, Class: c, Name: fmt.Sprintf("story-%d", time.Now().UnixNano()),
	})
	for _, step := range steps {
		fmt.Fprintln(o.stdout, step)
	}
	if err == nil && len(before) > 0 {
		err = fmt.Errorf("--before: the story has no step %q", slices.Sorted(maps.Keys(before)))
	}
	return err
}

// file is a call of the kubelet or of a pod, and its answer.
type file struct {
	Do, Path, Content string
	Exists            bool
}

// askFile lets the process of the lab do something with a file.
func askFile(ctx context.Context, f file) (file, error) {
	out, err := ask(ctx, "file", f)
	if err == nil {
		err = json.Unmarshal(out, &f)
	}
	return f, err
}

// kubelet makes the kubelet's directories, also while CSI Proxy is stopped.
type kubelet struct{ filesystem.Interface }

// Mkdir implements filesystem.Interface.
func (kubelet) Mkdir(ctx context.Context, in *filesystem.MkdirRequest) (*filesystem.MkdirResponse, error) {
	_, err := askFile(ctx, file{Do: "mkdir", Path: in.Path})
	return &filesystem.MkdirResponse{}, err
}

// Rmdir implements filesystem.Interface.
func (kubelet) Rmdir(ctx context.Context, in *filesystem.RmdirRequest) (*filesystem.RmdirResponse, error) {
	_, err := askFile(ctx, file{Do: "rmdir", Path: in.Path})
	return &filesystem.RmdirResponse{}, err
}

// PathExists implements filesystem.Interface.
func (kubelet) PathExists(ctx context.Context, in *filesystem.PathExistsRequest) (*filesystem.PathExistsResponse, error) {
	f, err := askFile(ctx, file{Do: "look", Path: in.Path})
	return &filesystem.PathExistsResponse{Exists: f.Exists}, err
}

// pod is a pod of the lab.
type pod struct{ ctx context.Context }

// WriteFile implements story.Pod.
func (p pod) WriteFile(path, content string) error {
	_, err := askFile(p.ctx, file{Do: "write", Path: path, Content: content})
	return err
}

// ReadFile implements story.Pod.
func (p pod) ReadFile(path string) (string, error) {
	f, err := askFile(p.ctx, file{Do: "read", Path: path})
	if err == nil && !f.Exists {
		err = fs.ErrNotExist
	}
	return f.Content, err
}

// read returns what the calls get in a cloud.
func (c *class) read(preset cloud.Cloud) (storageclass.Class, error) {
	out := storageclass.Class{MountFlags: c.mountFlags, Secrets: preset.Secrets()}
	var err error
	if out.Parameters, err = entries("--parameter", c.parameters); err != nil {
		return out, err
	}
	if out.Context, err = entries("--context", c.context); err != nil {
		return out, err
	}
	if c.secrets == "" {
		return out, nil
	}
	in := os.Stdin
	if c.secrets != "-" {
		if in, err = os.Open(c.secrets); err != nil {
			return out, fmt.Errorf("--secrets: %w", err)
		}
		defer in.Close()
	}
	if out.Secrets, err = storageclass.ReadSecrets(in); err != nil {
		return out, fmt.Errorf("--secrets %s: %w", c.secrets, err)
	}
	return out, nil
}

// entries returns the values of a flag as a map.
func entries(flag string, values []string) (map[string]string, error) {
	all := map[string]string{}
	for _, v := range values {
		name, value, ok := strings.Cut(v, "=")
		if !ok || name == "" {
			return nil, fmt.Errorf("%s %s: want NAME=value", flag, v)
		}
		all[name] = value
	}
	return all, nil
}

func changeProxy(ctx context.Context, o *options) error {
	if what := o.args[0]; len(o.args) > 1 || what != "stop" && what != "start" && what != "restart" && what != "kill" {
		return fmt.Errorf("proxy %s: want stop, start, restart or kill", strings.Join(o.args, " "))
	}
	_, err := ask(ctx, "proxy", o.args[0])
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

func logs(ctx context.Context, o *options) error { return show(ctx, o, "logs") }
func kill(ctx context.Context, o *options) error { return show(ctx, o, "kill") }
