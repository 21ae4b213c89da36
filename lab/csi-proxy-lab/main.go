// Command csi-proxy-lab runs the Windows build of a CSI driver on Linux: under Wine, with
// CSI Proxy on a simulated node, the kubelet's directories, and a cloud that attaches disks. It
// runs csi-sanity on the driver, makes the calls of a volume's life, and ends:
//
//	csi-proxy-lab --cloud ebs driver.exe --mode=node --endpoint=ENDPOINT
package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/kubernetes-csi/csi-proxy/v2/pkg/simnode"
	"github.com/kubernetes-csi/csi-proxy/v2/pkg/simnode/nodespec"

	"github.com/kubernetes-csi/csi-proxy/lab/cloud"
	"github.com/kubernetes-csi/csi-proxy/lab/sanity"
	"github.com/kubernetes-csi/csi-proxy/lab/storageclass"
	"github.com/kubernetes-csi/csi-proxy/lab/story"
	"github.com/kubernetes-csi/csi-proxy/lab/winlab"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	os.Exit(run(ctx, os.Args[1:], os.Stdin, os.Stdout, os.Stderr))
}

// options are the command line.
type options struct {
	cloud        string
	beta, sanity bool
	driver       []string // and its arguments
	env, files   list

	secrets                         string
	parameters, context, mountFlags list
}

// list is a flag that can be given several times.
type list []string

func (l *list) String() string     { return strings.Join(*l, " ") }
func (l *list) Set(v string) error { *l = append(*l, v); return nil }

func run(ctx context.Context, args []string, stdin io.Reader, stdout, stderr io.Writer) int {
	var clouds []string
	for _, c := range cloud.Clouds() {
		clouds = append(clouds, c.Name)
	}
	var o options
	f := flag.NewFlagSet("csi-proxy-lab", flag.ContinueOnError)
	f.SetOutput(stderr)
	f.Usage = func() {
		fmt.Fprint(stderr, "usage: csi-proxy-lab --cloud CLOUD [FLAG...] DRIVER.exe [ARGUMENT...]\n\nRuns the Windows build of a CSI driver on Linux, under Wine, on a simulated node: csi-sanity, and the calls of\na volume's life. ENDPOINT and ADDRESS in an argument stand for where the driver must listen.\n\n")
		f.PrintDefaults()
	}
	f.StringVar(&o.cloud, "cloud", "", "`cloud` whose disks are attached: "+strings.Join(clouds, ", "))
	f.BoolVar(&o.beta, "beta", false, "CSI Proxy serves the versions before v1 only")
	f.BoolVar(&o.sanity, "sanity", true, "run csi-sanity")
	f.Var(&o.env, "env", "`NAME=value` of the driver's environment; can be given several times")
	f.Var(&o.files, "file", "`PATH=FILE`: the driver has this file at the path, such as 'C:\\k\\azure.json=azure.json', as from a ConfigMap or a Secret; can be given several times")
	f.StringVar(&o.secrets, "secrets", "", "`file` with the secrets of the volume, NAME=value on each line, or - for standard input; they replace those that the cloud has")
	f.Var(&o.parameters, "parameter", "`NAME=value` of CreateVolume; can be given several times")
	f.Var(&o.context, "context", "`NAME=value` of the volume context; can be given several times")
	f.Var(&o.mountFlags, "mount-flag", "`option` of the mount; can be given several times")
	switch err := f.Parse(args); {
	case errors.Is(err, flag.ErrHelp):
		return 0
	case err != nil:
		return 2
	}
	if o.driver = f.Args(); len(o.driver) == 0 || o.cloud == "" {
		f.Usage()
		return 2
	}
	err := o.run(ctx, stdin, stdout)
	if err != nil && ctx.Err() != nil {
		err = errors.New("interrupted")
	}
	if err != nil {
		fmt.Fprintf(stderr, "csi-proxy-lab: %v\n", err)
		return 1
	}
	return 0
}

// run starts the lab and the driver, and calls it.
func (o *options) run(ctx context.Context, stdin io.Reader, stdout io.Writer) (err error) {
	preset, err := cloud.Named(o.cloud)
	if err != nil {
		return err
	}
	class, err := o.class(preset, stdin)
	if err != nil {
		return err
	}
	driver := winlab.Driver{Exe: o.driver[0], Args: o.driver[1:]}
	if driver.Files, err = entries("--file", o.files); err != nil {
		return err
	}
	for path, file := range driver.Files {
		content, err := os.ReadFile(file)
		if err != nil {
			return fmt.Errorf("--file %s=%s: %w", path, file, err)
		}
		driver.Files[path] = string(content)
	}
	log, err := os.CreateTemp("", "csi-proxy-lab*.log")
	if err != nil {
		return err
	}
	defer log.Close()
	fmt.Fprintf(stdout, "The output of the driver and of the lab is in %s.\n", log.Name())
	n, err := simnode.Open(node(log))
	if err != nil {
		return err
	}
	defer n.Close()
	config := winlab.Config{Relay: relay(), Log: log}
	if o.beta {
		config.Serve.APIs = winlab.BeforeV1()
	}
	lab, err := winlab.Open(ctx, n, config)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, lab.Close()) }()
	c := cloud.New(n, preset)
	controller, err := c.Start(ctx)
	if err != nil {
		return err
	}
	metadata, err := c.StartMetadata(ctx)
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			fmt.Fprintf(stdout, "The end of the driver's output:\n%s\nThe state of the node is at the end of %s.\n", end(lab.Output()), log.Name())
			state, shown := n.Show()
			text, encoded := json.MarshalIndent(state, "", "  ")
			_, written := log.Write(text)
			err = errors.Join(err, shown, encoded, written)
		}
	}()
	driver.Env = append(cloud.Environment(metadata), o.env...)
	if err := lab.RunWith(ctx, driver); err != nil {
		return err
	}
	if o.sanity {
		err = runSanity(log, stdout, sanity.Suite{Endpoint: lab.Endpoint(), Controller: controller, Files: n.Filesystem(), VolumeID: preset.VolumeID, Class: class})
	}
	steps, failed := story.Run(ctx, story.Config{Endpoint: lab.Endpoint(), Controller: controller, Files: n.Filesystem(), Pod: lab, Class: class, Name: "story"})
	fmt.Fprint(stdout, story.String(steps))
	return errors.Join(err, failed)
}

// end returns the last lines of a text.
func end(text string) string {
	lines := strings.Split(strings.TrimSpace(text), "\n")
	return strings.Join(lines[max(0, len(lines)-20):], "\n")
}

// runSanity runs csi-sanity, and prints what fails.
func runSanity(log, stdout io.Writer, suite sanity.Suite) error {
	began := time.Now()
	result, err := sanity.Run(log, suite)
	if err != nil {
		return err
	}
	failed := result.In(sanity.Failed)
	for _, spec := range failed {
		fmt.Fprintln(stdout, spec)
	}
	for _, dir := range result.Left {
		fmt.Fprintf(stdout, "left on the node: %s\n", dir)
	}
	fmt.Fprintf(stdout, "csi-sanity: %s, in %.1f s\n", result, time.Since(began).Seconds())
	if len(failed) > 0 {
		return fmt.Errorf("%d specs of csi-sanity failed", len(failed))
	}
	return nil
}

// node describes the node: what clouds need.
func node(log io.Writer) simnode.Config {
	c := simnode.Config{Log: slog.New(slog.NewTextHandler(log, nil)), Disks: []simnode.Disk{{Content: nodespec.ContentSystem}}, SMBServers: cloud.SMBServers()}
	// Clouds tell Windows of new disks (the drivers for EBS, GCE PD and vSphere do not rescan),
	// and need longer to attach one than Windows to find it.
	c.Attach = nodespec.AttachSeen
	// The driver for vSphere makes the ID of its node from the serial number that VMware gives.
	c.Firmware.SerialNumber = "VMware-42 29 92 4b 83 35 d9 77-f3 82 cf 46 56 61 ac 60"
	return c
}

// relay returns the path of csi-proxy-relay.exe beside this program, or "" if it is to be built.
func relay() string {
	self, err := os.Executable()
	if err != nil {
		return ""
	}
	exe := filepath.Join(filepath.Dir(self), "csi-proxy-relay.exe")
	if _, err := os.Stat(exe); err != nil {
		return ""
	}
	return exe
}

// class returns what the calls get in a cloud.
func (o *options) class(preset cloud.Cloud, stdin io.Reader) (c storageclass.Class, err error) {
	c.MountFlags, c.Secrets = o.mountFlags, preset.Secrets()
	if c.Parameters, err = entries("--parameter", o.parameters); err != nil {
		return c, err
	}
	if c.Context, err = entries("--context", o.context); err != nil {
		return c, err
	}
	if o.secrets == "" {
		return c, nil
	}
	if o.secrets != "-" {
		file, err := os.Open(o.secrets)
		if err != nil {
			return c, fmt.Errorf("--secrets: %w", err)
		}
		defer file.Close()
		stdin = file
	}
	if c.Secrets, err = storageclass.ReadSecrets(stdin); err != nil {
		return c, fmt.Errorf("--secrets %s: %w", o.secrets, err)
	}
	return c, nil
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
