package main

import (
	"archive/zip"
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/spf13/cobra"
	"google.golang.org/protobuf/encoding/protojson"

	"github.com/kubernetes-csi/csi-proxy/v2/internal/admin"
)

// The most that a bundle takes of each log file and of the metrics, and of how many log files.
const (
	tailSize    = 1 << 20
	metricsSize = 4 << 20
	logFiles    = 10
)

func (a *app) bundleCommand() *cobra.Command {
	b := &bundle{}
	c := &cobra.Command{
		Use:   "bundle [FILE.zip]",
		Short: "Write what a report needs into a zip file, and list what is in it",
		Long: `Write what a report needs into a zip file, and list what is in it: versions, the
findings of doctor, the calls in flight, the last that failed, the lists, what csi-proxy
knows of the node, the ends of the log files and the metrics. It changes nothing on the
node. What cannot be read is missing, and contents.txt in the file says so.

It has no passwords and no CHAP secrets, which csi-proxy writes nowhere. It has paths of
the node, names of servers, shares, accounts and targets, and serial numbers: read it
before you send it. Where csi-proxy hangs, it takes 10 s, or --timeout for each answer.

The log files and the address of the metrics are those on the command line of the Windows
service that runs csi-proxy. --log and --metrics name others.`,
		Example: `  csi-proxyctl bundle
  csi-proxyctl bundle report.zip --log C:\csi\csi-proxy.log --metrics 127.0.0.1:9808`,
		Args: cobra.MaximumNArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			file := "csi-proxy-" + time.Now().UTC().Format("20060102T150405Z") + ".zip"
			if len(args) > 0 {
				file = args[0]
			}
			service, err := theService()
			if err != nil {
				a.note("%v", err)
			}
			if b.logs == nil {
				b.logs = logsOf(service)
			}
			if all := arguments(service.Args, "metrics-bind-address"); b.metrics == "" && len(all) > 0 {
				b.metrics = all[len(all)-1]
			}
			return a.writeBundle(c.Context(), file, b)
		},
	}
	c.Flags().StringArrayVar(&b.logs, "log", nil, "log `file`, with earlier ones and crash files beside it, or directory with log files of csi-proxy; repeatable")
	c.Flags().StringVar(&b.metrics, "metrics", "", "`address` of the metrics, host:port")
	return c
}

// bundle is a zip file that is being written.
type bundle struct {
	logs    []string
	metrics string
	zip     *zip.Writer
	entries []bundleEntry
	err     error // of the first file that could not be written
}

// bundleEntry is a file of a bundle.
type bundleEntry struct {
	Name      string `json:"name"`
	SizeBytes int    `json:"sizeBytes"`
	What      string `json:"what"`
}

// writeBundle writes a new file. It fails if there is one.
func (a *app) writeBundle(ctx context.Context, file string, b *bundle) error {
	f, err := os.OpenFile(file, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return &failure{err: err}
	}
	b.zip = zip.NewWriter(f)
	a.fillBundle(ctx, b)
	err = cmp.Or(ctx.Err(), b.err, b.zip.Close(), f.Close())
	if err != nil {
		f.Close()
		return &failure{err: errors.Join(err, os.Remove(file))}
	}
	rows := [][]string{}
	for _, e := range b.entries {
		rows = append(rows, []string{e.Name, bytesText(uint64(e.SizeBytes)), e.What})
	}
	a.note("wrote %s; read it before you send it: it names paths, servers, accounts and serial numbers", file)
	return a.print(b.entries, "FILE SIZE CONTENT", rows)
}

func (a *app) fillBundle(ctx context.Context, b *bundle) {
	parts := []struct {
		name, what, args string
		out, notes       bytes.Buffer
	}{
		{name: "versions.json", what: "the versions that are served", args: "versions"},
		{name: "doctor.json", what: "what doctor finds", args: "doctor"},
		{name: "calls.json", what: "the calls in flight", args: "calls"},
		{name: "failures.json", what: "the last calls that failed, with what of Windows failed in them", args: "calls --failed"},
		{name: "disks.json", what: "the disks", args: "disk list"},
		{name: "volumes.json", what: "the volumes", args: "volume list"},
		{name: "smb.json", what: "the SMB mappings and the links that use them", args: "smb list"},
		{name: "iscsi-portals.json", what: "the iSCSI portals", args: "call iscsi/v1alpha2 ListTargetPortals --timeout=10s"},
		{name: "service-iscsi.json", what: "the service of iSCSI", args: "call system/v1alpha1 GetService name=MSiSCSI --timeout=10s"},
		{name: "service-smb.json", what: "the service of SMB", args: "call system/v1alpha1 GetService name=LanmanWorkstation --timeout=10s"},
		{name: "service-kubelet.json", what: "the service of the kubelet", args: "call system/v1alpha1 GetService name=kubelet --timeout=10s"},
	}
	var node *admin.DescribeResponse
	var unknown error
	var group sync.WaitGroup // what hangs delays nothing else
	for i := range parts {
		group.Go(func() {
			args := append(strings.Fields(parts[i].args), "--output=json")
			if a.timeoutSet() {
				args = append(args, "--timeout="+a.timeout.String())
			}
			(&app{stdin: strings.NewReader(""), stdout: &parts[i].out, stderr: &parts[i].notes, connect: a.connect}).run(ctx, args)
		})
	}
	group.Go(func() { node, unknown = a.describe(ctx, &admin.DescribeRequest{Links: true, Sessions: true}) })
	group.Wait()
	for i := range parts {
		b.add(parts[i].name, parts[i].what, parts[i].out.Bytes(), nil)
		if parts[i].notes.Len() > 0 {
			b.add(strings.TrimSuffix(parts[i].name, ".json")+".stderr.txt", "what the command printed to standard error", parts[i].notes.Bytes(), nil)
		}
	}
	// Also how disks, volumes, links and iSCSI sessions belong together.
	text, failed := protojson.MarshalOptions{Multiline: true, EmitDefaultValues: true}.Marshal(node)
	b.add("node.json", "disks, partitions, volumes, links and iSCSI sessions", text, cmp.Or(unknown, failed))
	b.addLogs()
	b.addMetrics(ctx)
	b.addContents()
}

// add adds a file. Without content, or if that is unknown, it is reported as missing.
func (b *bundle) add(name, what string, content []byte, unknown error) {
	if unknown != nil {
		b.without(name, what+": "+brief(unknown))
		return
	}
	if len(content) == 0 {
		b.without(name, what+": nothing")
		return
	}
	w, err := b.zip.CreateHeader(&zip.FileHeader{Name: name, Method: zip.Deflate, Modified: time.Now()})
	if err == nil {
		b.entries = append(b.entries, bundleEntry{name, len(content), what})
		_, err = w.Write(content)
	}
	b.err = cmp.Or(b.err, err)
}

// without notes that something is missing.
func (b *bundle) without(name, why string) { b.entries = append(b.entries, bundleEntry{name, 0, why}) }

// addLogs adds the ends of the newest log files.
func (b *bundle) addLogs() {
	if len(b.logs) == 0 {
		b.without("log", "no log file is known; --log names one")
	}
	for i, path := range b.logs {
		files, err := logsAt(path)
		if err != nil {
			b.without("log", err.Error())
		}
		for _, file := range files {
			text, err := tail(file)
			b.add(fmt.Sprintf("log/%d/%s", i+1, filepath.Base(file)), "the end of "+file, text, err)
		}
	}
}

// logsAt returns the newest log files of csi-proxy in a directory or, for a log file, the
// newest of it, its earlier files and its crash files. Other files beside them may hold secrets.
func logsAt(path string) ([]string, error) {
	info, err := os.Stat(path)
	if err != nil {
		return nil, err
	}
	dir, isLog := filepath.Dir(path), logNames(filepath.Base(path))
	if info.IsDir() {
		dir, isLog = path, logInDirectory
	}
	all, err := os.ReadDir(dir)
	if err != nil {
		return nil, err
	}
	type found struct {
		path string
		at   time.Time
	}
	var files []found
	for _, e := range all {
		info, err := e.Info()
		if err == nil && info.Mode().IsRegular() && isLog.MatchString(e.Name()) {
			files = append(files, found{filepath.Join(dir, e.Name()), info.ModTime()})
		}
	}
	slices.SortStableFunc(files, func(a, b found) int { return b.at.Compare(a.at) })
	var newest []string
	for _, f := range files[:min(len(files), logFiles)] {
		newest = append(newest, f.path)
	}
	return newest, nil
}

// logInDirectory matches the log files that csi-proxy makes in -log_dir, and its crash files.
var logInDirectory = regexp.MustCompile(`(?i)^csi-proxy.*\.log(\..*)?$`)

// logNames matches the name of a log file, and those of its earlier ones and crash files
// (cmd/internal/logs).
func logNames(name string) *regexp.Regexp {
	const stamp = `\d{8}T\d{6}\.\d{3}`
	extension := filepath.Ext(name)
	stem := regexp.QuoteMeta(strings.TrimSuffix(name, extension))
	extension = regexp.QuoteMeta(extension)
	return regexp.MustCompile(`(?i)^` + stem + `((-` + stamp + `)?` + extension + `|-crash(-` + stamp + `)?\.log)$`)
}

// tail returns the last lines of a file.
func tail(path string) ([]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	size, err := f.Seek(0, io.SeekEnd)
	if err != nil {
		return nil, err
	}
	from := max(0, size-tailSize)
	text, err := io.ReadAll(io.NewSectionReader(f, from, size-from))
	if from > 0 {
		_, text, _ = bytes.Cut(text, []byte("\n"))
	}
	return text, err
}

func (b *bundle) addMetrics(ctx context.Context) {
	const name = "metrics.txt"
	if b.metrics == "" {
		b.without(name, "the address of the metrics is not known; --metrics names it")
		return
	}
	text, err := scrape(ctx, b.metrics)
	b.add(name, "the metrics of "+b.metrics, text, err)
}

func scrape(ctx context.Context, address string) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, probeLimit)
	defer cancel()
	in, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+address+"/metrics", nil)
	if err != nil {
		return nil, err
	}
	out, err := http.DefaultClient.Do(in)
	if err != nil {
		return nil, err
	}
	defer out.Body.Close()
	if out.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("GET %s: %s", in.URL, out.Status)
	}
	return io.ReadAll(io.LimitReader(out.Body, metricsSize))
}

// addContents adds the list of what is in the bundle.
func (b *bundle) addContents() {
	var text strings.Builder
	fmt.Fprintf(&text, "Written by csi-proxyctl %s on %s/%s at %s.\n\n", version, runtime.GOOS, runtime.GOARCH, time.Now().UTC().Format(time.RFC3339))
	for _, e := range b.entries {
		fmt.Fprintf(&text, "%-24s %9d bytes  %s\n", e.Name, e.SizeBytes, e.What)
	}
	b.add("contents.txt", "this list", []byte(text.String()), nil)
}
