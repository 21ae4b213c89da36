package main

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"sync"
	"text/tabwriter"
	"time"

	"github.com/kubernetes-csi/csi-proxy/v2/test/cluster"
	"github.com/kubernetes-csi/csi-proxy/v2/test/cluster/programs"
)

// background is the command of the process that has the cluster. up starts it.
const background = "in-background"

// serve is the process in the background.
func serve(ctx context.Context, o *options) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	set, err := programs.Build(ctx, o.source, io.Discard)
	if err != nil {
		return err
	}
	c, err := cluster.Start(ctx, cluster.Config{Dir: directory(), Nodes: o.nodes, Programs: set, Proxy: o.proxy, Driver: o.args})
	if err != nil {
		return err
	}
	l, err := net.Listen("unix", control())
	if err != nil {
		return err
	}
	server := &http.Server{Handler: handler(c, set, cancel), BaseContext: func(net.Listener) context.Context { return ctx }}
	served := make(chan error, 1)
	go func() { served <- server.Serve(l) }()
	select {
	case err = <-served:
	case <-ctx.Done():
	}
	// The commands that run end before what they use is closed. A program may take 30 s to stop.
	cancel()
	last, end := context.WithTimeout(context.WithoutCancel(ctx), time.Minute)
	defer end()
	return errors.Join(err, server.Shutdown(last), c.Close())
}

// answer is what the process in the background answers.
type answer struct {
	Output string // also of a command that fails
	Error  string // empty for a command that succeeds
}

func handler(c *cluster.Cluster, set *programs.Set, end func()) http.Handler {
	var changing sync.Mutex // held by a command that changes the cluster
	mux := http.NewServeMux()
	handle := func(name string, do func(ctx context.Context, w io.Writer, argument string) error) {
		mux.HandleFunc("POST /"+name, func(w http.ResponseWriter, q *http.Request) {
			var out bytes.Buffer
			var a answer
			if err := do(q.Context(), &out, q.URL.Query().Get("argument")); err != nil {
				a.Error = err.Error()
			}
			a.Output = out.String()
			_ = json.NewEncoder(w).Encode(a) // fails if the caller has gone
		})
	}
	change := func(name string, do func(ctx context.Context, w io.Writer, argument string) error) {
		handle(name, func(ctx context.Context, w io.Writer, argument string) error {
			changing.Lock()
			defer changing.Unlock()
			if err := ctx.Err(); err != nil {
				return err // the caller has gone, or the cluster ends
			}
			return do(ctx, w, argument)
		})
	}
	changeNode := func(name string, do func(ctx context.Context, w io.Writer, n *cluster.Node) error) {
		change(name, func(ctx context.Context, w io.Writer, node string) error {
			n, err := c.Node(node)
			if err != nil {
				return err
			}
			return do(ctx, w, n)
		})
	}
	handle("ready", func(context.Context, io.Writer, string) error { return nil })
	handle("kubernetes", func(_ context.Context, w io.Writer, _ string) error {
		_, err := io.WriteString(w, set.Kubernetes)
		return err
	})
	handle("status", func(ctx context.Context, w io.Writer, _ string) error { return status(ctx, w, c) })
	change("upgrade", func(ctx context.Context, w io.Writer, build string) error {
		started := time.Now()
		if err := c.Upgrade(ctx, cmp.Or(build, programs.New)); err != nil {
			return err
		}
		fmt.Fprintf(w, "CSI Proxy was replaced on %d nodes in %.1f s\n", len(c.Nodes), time.Since(started).Seconds())
		for _, n := range c.Nodes {
			version, err := n.ProxyVersion(ctx)
			if err != nil {
				return err
			}
			fmt.Fprintf(w, "%s: %s\n", n.Name, version)
		}
		return nil
	})
	handle("down", func(context.Context, io.Writer, string) error { end(); return nil })
	changeNode("kill-kubelet", func(ctx context.Context, w io.Writer, n *cluster.Node) error {
		n.KillKubelet()
		started := time.Now()
		if err := n.StartKubelet(ctx); err != nil {
			return err
		}
		fmt.Fprintf(w, "%s: the kubelet was killed, and is ready again after %.1f s\n", n.Name, time.Since(started).Seconds())
		return nil
	})
	changeNode("reboot", func(ctx context.Context, w io.Writer, n *cluster.Node) error {
		started := time.Now()
		if err := n.Reboot(ctx); err != nil {
			return err
		}
		fmt.Fprintf(w, "%s: ready again after %.1f s\n", n.Name, time.Since(started).Seconds())
		return nil
	})
	return mux
}

// status prints the nodes, what volumes have on them, and the memory of all programs. What does
// not run is part of the answer.
func status(ctx context.Context, w io.Writer, c *cluster.Cluster) error {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, "PROGRAM\tMIB\tMOST")
	row := func(p *programs.Process, where string) {
		now, most := p.Memory()
		if p.Ended() {
			fmt.Fprintf(t, "%s%s\tended\t%d\t%s\n", where, p.Name, most, p.Log())
			return
		}
		fmt.Fprintf(t, "%s%s\t%d\t%d\n", where, p.Name, now, most)
	}
	for _, p := range c.Servers.Processes() {
		row(p, "")
	}
	for _, n := range c.Nodes {
		for _, p := range n.Processes() {
			row(p, n.Name+" ")
		}
	}
	if err := t.Flush(); err != nil {
		return err
	}
	for _, n := range c.Nodes {
		// The version comes first: it fails at once if there is no CSI Proxy, and Left waits for it.
		version, err := n.ProxyVersion(ctx)
		var left []string
		if err == nil {
			left, err = n.Left()
		}
		if err != nil {
			fmt.Fprintf(w, "\n%s: os=linux for Kubernetes, CSI Proxy in %s does not answer: %v\n", n.Name, n.Pipes(), err)
			continue
		}
		fmt.Fprintf(w, "\n%s: os=linux for Kubernetes, CSI Proxy %s in %s\n", n.Name, version, n.Pipes())
		if len(left) == 0 {
			fmt.Fprintln(w, "  nothing of a volume")
		}
		for _, what := range left {
			fmt.Fprintln(w, " ", what)
		}
	}
	return nil
}
