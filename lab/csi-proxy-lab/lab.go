package main

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"sigs.k8s.io/yaml"

	"github.com/kubernetes-csi/csi-proxy/client/pipe"
	"github.com/kubernetes-csi/csi-proxy/v2/pkg/filesystem"
	"github.com/kubernetes-csi/csi-proxy/v2/pkg/simnode"
	"github.com/kubernetes-csi/csi-proxy/v2/pkg/simnode/nodespec"
	"github.com/kubernetes-csi/csi-proxy/v2/pkg/simnode/serve"

	"github.com/kubernetes-csi/csi-proxy/lab/cloud"
	"github.com/kubernetes-csi/csi-proxy/lab/mirror"
	"github.com/kubernetes-csi/csi-proxy/lab/winlab"
)

// variable is a variable of the lab's shell. It has the directory of the lab's files.
const variable = "CSI_PROXY_LAB"

// control returns the socket of the lab's process.
func control(dir string) string { return filepath.Join(dir, "control.sock") }

func clouds() []string {
	var names []string
	for _, c := range cloud.Clouds() {
		names = append(names, c.Name)
	}
	return names
}

// running is the lab of this process.
type running struct {
	ctx  context.Context
	node *simnode.Node
	lab  *winlab.Lab

	mu sync.Mutex

	state state
	end   context.CancelFunc // of the cloud
}

// state is what commands need to know of the lab.
type state struct {
	Endpoint   string // of the driver; empty if none runs
	Cloud      string
	Controller string   // address of the cloud's controller
	Env        []string // with which drivers ask the cloud's metadata server
}

// request is what run asks for.
type request struct {
	Exe   string
	Args  []string
	Env   []string
	Files map[string]string // by their paths in Wine
}

// start starts the lab, and the shell in it.
func start(ctx context.Context, o *options) (err error) {
	for _, arg := range o.args {
		if name, _, _ := strings.Cut(strings.TrimLeft(arg, "-"), "="); name == "kubelet-path" {
			return fmt.Errorf("%s: the lab has the kubelet's files in %s only", arg, mirror.Dir)
		}
	}
	description, err := describe(o.node)
	if err != nil {
		return err
	}
	began := time.Now()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	dir, err := os.MkdirTemp("", "lab") // short, because of the sockets
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	pipes := filepath.Join(dir, "pipes")
	if err := errors.Join(os.Mkdir(pipes, 0o700), os.Setenv(pipe.DirVariable, pipes)); err != nil {
		return err
	}
	log, err := os.Create(filepath.Join(dir, "log"))
	if err != nil {
		return err
	}
	defer log.Close()
	self, err := os.Executable()
	if err != nil {
		return err
	}
	relay := filepath.Join(filepath.Dir(self), "csi-proxy-relay.exe")
	if _, err := os.Stat(relay); err != nil {
		relay = "" // it is built
	}
	n, err := simnode.Open(description)
	if err != nil {
		return err
	}
	defer n.Close()
	flags := o.args
	if o.beta {
		flags = append([]string{"-enable-api=" + strings.Join(winlab.BeforeV1(), ",")}, flags...)
	}
	r := &running{ctx: ctx, node: n, end: func() {}}
	r.lab, err = winlab.Open(ctx, n, winlab.Config{Relay: relay, Log: log, Serve: serve.Config{Flags: flags, StandardPipes: true, Control: true}})
	if err != nil {
		return interrupted(ctx, err)
	}
	defer func() {
		n.ClearFaults()
		err = errors.Join(err, r.lab.Close())
	}()
	l, err := net.Listen("unix", control(dir))
	if err != nil {
		return err
	}
	s := &http.Server{Handler: r.handler(), BaseContext: func(net.Listener) context.Context { return ctx }}
	defer s.Close()
	go func() { _ = s.Serve(l) }() // ends with Close

	fmt.Fprintf(o.stdout, "The lab is up, after %.1f s. csi-proxyctl of this shell reaches its node; its log is %s.\n", time.Since(began).Seconds(), log.Name())
	shell := exec.CommandContext(ctx, cmp.Or(os.Getenv("SHELL"), "/bin/sh"))
	shell.Env = append(os.Environ(), variable+"="+dir, "PATH="+filepath.Dir(self)+string(os.PathListSeparator)+os.Getenv("PATH"))
	shell.Stdin, shell.Stdout, shell.Stderr = o.stdin, o.stdout, o.stderr
	err = interrupted(ctx, shell.Run())
	if code := shell.ProcessState; err != nil && ctx.Err() == nil && code != nil {
		return ended(max(1, code.ExitCode()))
	}
	return err
}

// ended is the error for a shell that ended with another exit code than 0.
type ended int

func (e ended) Error() string { return fmt.Sprintf("the shell ended with exit code %d", int(e)) }

// interrupted returns what an error is after Ctrl+C.
func interrupted(ctx context.Context, err error) error {
	if err != nil && ctx.Err() != nil {
		return errors.New("interrupted")
	}
	return err
}

// describe returns the description of the node: that of a file, and what clouds need. An empty
// name means a node with the disk of Windows.
func describe(name string) (simnode.Config, error) {
	var c simnode.Config
	if name != "" {
		text, err := os.ReadFile(name)
		if err == nil {
			err = yaml.UnmarshalStrict(text, &c)
		}
		if err != nil {
			return c, fmt.Errorf("--node %s: %w", name, err)
		}
	}
	if len(c.Disks) == 0 {
		c.Disks = []simnode.Disk{{Content: nodespec.ContentSystem}}
	}
	// Clouds tell Windows of new disks (the drivers for EBS, GCE PD and vSphere do not rescan),
	// and need longer to attach one than Windows to find it.
	if c.Attach == "" && c.World == "" {
		c.Attach = nodespec.AttachSeen
	}
	// The driver for vSphere makes the ID of its node from the serial number that VMware gives.
	if c.Firmware.SerialNumber == "" && c.Firmware.SMBIOS == "" {
		c.Firmware.SerialNumber = "VMware-42 29 92 4b 83 35 d9 77-f3 82 cf 46 56 61 ac 60"
	}
	for _, s := range cloud.SMBServers() {
		if !slices.ContainsFunc(c.SMBServers, func(have simnode.SMBServer) bool { return strings.EqualFold(have.Name, s.Name) }) {
			c.SMBServers = append(c.SMBServers, s)
		}
	}
	return c, nil
}

func (r *running) handler() http.Handler {
	mux := http.NewServeMux()
	handle := func(name string, do func(ctx context.Context, w io.Writer, in []byte) error) {
		mux.HandleFunc("POST /"+name, func(w http.ResponseWriter, q *http.Request) {
			in, err := io.ReadAll(q.Body)
			var out bytes.Buffer
			if err == nil {
				err = do(q.Context(), &out, in)
			}
			if err != nil {
				w.WriteHeader(http.StatusInternalServerError)
				_, _ = io.WriteString(w, err.Error())
				return
			}
			_, _ = w.Write(out.Bytes())
		})
	}
	handle("state", func(_ context.Context, w io.Writer, _ []byte) error {
		r.mu.Lock()
		defer r.mu.Unlock()
		r.state.Endpoint = r.lab.Endpoint()
		return json.NewEncoder(w).Encode(r.state)
	})
	handle("cloud", func(_ context.Context, _ io.Writer, name []byte) error { return r.setCloud(string(name)) })
	handle("run", func(ctx context.Context, w io.Writer, in []byte) error {
		var q request
		if err := json.Unmarshal(in, &q); err != nil {
			return err
		}
		err := r.lab.RunWith(ctx, winlab.Driver(q))
		if errors.Is(err, winlab.ErrEnded) {
			_, err = io.WriteString(w, r.lab.Output())
		}
		return err
	})
	handle("logs", func(_ context.Context, w io.Writer, _ []byte) error {
		_, err := io.WriteString(w, r.lab.Output())
		return err
	})
	handle("proxy", func(_ context.Context, _ io.Writer, what []byte) error {
		p := r.lab.Proxy
		return map[string]func() error{"stop": p.Stop, "kill": p.Kill, "start": p.Restart, "restart": p.Restart}[string(what)]()
	})
	handle("file", func(ctx context.Context, w io.Writer, in []byte) error {
		var f file
		err := json.Unmarshal(in, &f)
		if err == nil {
			err = r.file(ctx, &f)
		}
		if err != nil {
			return err
		}
		return json.NewEncoder(w).Encode(f)
	})
	handle("kill", func(context.Context, io.Writer, []byte) error { r.lab.Kill(); return nil })
	return mux
}

// file does something with a file.
func (r *running) file(ctx context.Context, f *file) (err error) {
	files := r.node.Filesystem()
	switch f.Do {
	case "mkdir":
		_, err = files.Mkdir(ctx, &filesystem.MkdirRequest{Path: f.Path})
	case "rmdir":
		_, err = files.Rmdir(ctx, &filesystem.RmdirRequest{Path: f.Path})
	case "look":
		var out *filesystem.PathExistsResponse
		if out, err = files.PathExists(ctx, &filesystem.PathExistsRequest{Path: f.Path}); err == nil {
			f.Exists = out.Exists
		}
	case "write":
		err = r.lab.WriteFile(f.Path, f.Content)
	case "read":
		f.Content, err = r.lab.ReadFile(f.Path)
		f.Exists = err == nil
		if errors.Is(err, fs.ErrNotExist) {
			err = nil
		}
	}
	return err
}

// setCloud puts the node into a cloud, unless it is there.
func (r *running) setCloud(name string) error {
	preset, err := cloud.Named(name)
	if err != nil {
		return err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.state.Cloud == name {
		return nil
	}
	ctx, end := context.WithCancel(r.ctx)
	c := cloud.New(r.node, preset)
	controller, err := c.Start(ctx)
	if err != nil {
		end()
		return err
	}
	metadata, err := c.StartMetadata(ctx)
	if err != nil {
		end()
		return err
	}
	r.end()
	r.end = end
	r.state.Cloud, r.state.Controller, r.state.Env = name, controller, cloud.Environment(metadata)
	return nil
}

// ask calls the process of the lab.
func ask(ctx context.Context, name string, in any) ([]byte, error) {
	dir := os.Getenv(variable)
	if dir == "" {
		return nil, errors.New("no lab runs in this shell; start one, and a shell in it, with: csi-proxy-lab")
	}
	body, ok := in.(string)
	if !ok && in != nil {
		b, err := json.Marshal(in)
		if err != nil {
			return nil, err
		}
		body = string(b)
	}
	client := &http.Client{Transport: &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, "unix", control(dir))
	}}}
	defer client.CloseIdleConnections()
	q, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://lab/"+name, strings.NewReader(body))
	if err != nil {
		return nil, err
	}
	a, err := client.Do(q)
	switch {
	case err == nil:
	case ctx.Err() != nil:
		return nil, fmt.Errorf("%s: %w", name, ctx.Err())
	default:
		return nil, fmt.Errorf("%s: the lab does not answer: %w", name, err)
	}
	defer a.Body.Close()
	out, err := io.ReadAll(a.Body)
	if err == nil && a.StatusCode != http.StatusOK {
		err = errors.New(string(out))
	}
	return out, err
}

// current returns the state of the lab, in a cloud if one is named.
func current(ctx context.Context, o *options) (state, error) {
	var s state
	if o.cloud != "" {
		if _, err := ask(ctx, "cloud", o.cloud); err != nil {
			return s, err
		}
	}
	out, err := ask(ctx, "state", nil)
	if err != nil {
		return s, err
	}
	return s, json.Unmarshal(out, &s)
}
