// Package logs writes the log of a daemon: in the text format of klog or as JSON, to
// standard error or to files that keep their last line when the process is killed, with
// backups by size and age, and a file for the crash of the process.
package logs

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"strconv"
	"strings"
	"time"

	"github.com/go-logr/logr"
	"k8s.io/klog/v2"
)

// Options say where the log goes, and how. The flags of klog say the rest.
type Options struct {
	Program, Version string

	ToStderr   bool
	File       string // the log file; empty means files by severity in Dir
	Dir        string // empty means the directory for temporary files
	Limits     Limits
	SkipHeader bool

	JSON      bool
	Verbosity int // for JSON
}

// crashBackups is how many crashes are kept.
const crashBackups = 5

// Set makes klog and the default logger of log/slog write the log as o says, to stderr where
// there is no file. The log works even if Set fails: then it goes to stderr until the file
// can be opened.
//
// failed, if it is not nil, is called when a line cannot be written to a file. It must not log.
func Set(o Options, stderr io.Writer, failed func(error)) (files Files, err error) {
	var to io.Writer = stderr
	if !o.ToStderr {
		files = o.files(stderr, failed)
		to = files[0]
		err = files[0].Open()
	}
	if o.JSON {
		log := slog.New(slog.NewJSONHandler(to, &slog.HandlerOptions{AddSource: true, Level: slog.Level(-o.Verbosity), ReplaceAttr: attrOfJSON}))
		klog.SetSlogLogger(log)
		slog.SetDefault(log)
	} else {
		slog.SetDefault(slog.New(logr.ToSlogHandler(klog.Background())))
	}
	return files, err
}

// Files are the files of a log. The first one gets all lines.
type Files []*File

// Close closes the files; later lines open them again.
func (all Files) Close() {
	for _, f := range all {
		f.Close() // every line has been written
	}
}

// Err returns why a file does not have the last line that it should have, or nil.
func (all Files) Err() error {
	for _, f := range all {
		if err := f.Err(); err != nil {
			return err
		}
	}
	return nil
}

// files makes klog write to files.
func (o Options) files(stderr io.Writer, failed func(error)) Files {
	header := ""
	if !o.SkipHeader && !o.JSON {
		header = fmt.Sprintf("Log of %s %s, %s %s/%s, since %s. Format of lines: [IWEF]mmdd hh:mm:ss.uuuuuu process file:line] message\n",
			o.Program, o.Version, runtime.Version(), runtime.GOOS, runtime.GOARCH, time.Now().Format(time.RFC3339))
	}
	if o.File != "" {
		f := NewFile(o.File, o.Limits, header, stderr, failed)
		klog.SetOutput(f)
		return Files{f}
	}
	var files Files
	for _, severity := range []string{"INFO", "WARNING", "ERROR", "FATAL"} {
		f := NewFile(filepath.Join(o.dir(), nameOf(severity)), o.Limits, header, stderr, failed)
		klog.SetOutputBySeverity(severity, f)
		files = append(files, f)
	}
	return files
}

func (o Options) dir() string {
	if o.Dir == "" {
		return os.TempDir()
	}
	return o.Dir
}

// Check reports why the log file cannot be written, or nil. It makes nothing, so a directory that
// must be made, or a file in one, may still fail.
func (o Options) Check() error {
	if o.ToStderr {
		return nil
	}
	if f, err := os.OpenFile(o.File, os.O_WRONLY|os.O_APPEND, 0); err == nil {
		return f.Close()
	} else if o.File != "" && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("the log file cannot be written: %w", err)
	}
	dir := o.dir()
	if o.File != "" {
		dir = filepath.Dir(o.File)
	}
	for {
		info, err := os.Stat(dir)
		switch parent := filepath.Dir(dir); {
		case err == nil && !info.IsDir():
			return fmt.Errorf("the log cannot be written: %s is not a directory", dir)
		case err == nil, !errors.Is(err, fs.ErrNotExist), parent == dir:
			if err != nil {
				err = fmt.Errorf("the log cannot be written: %w", err)
			}
			return err
		default:
			dir = parent
		}
	}
}

// nameOf returns the name that klog gives the file of a severity.
func nameOf(severity string) string {
	host := "unknownhost"
	if h, err := os.Hostname(); err == nil {
		host, _, _ = strings.Cut(h, ".")
	}
	// As klog has it on Windows. Package os/user would make csi-proxy.exe larger.
	name := strings.ReplaceAll(cmp.Or(os.Getenv("USERNAME"), os.Getenv("USER"), "unknownuser"), `\`, "_")
	if domain := os.Getenv("USERDOMAIN"); domain != "" {
		name = domain + "_" + name
	}
	return fmt.Sprintf("%s.%s.%s.log.%s.%s.%d", filepath.Base(os.Args[0]), host, name, severity, time.Now().Format("20060102-150405"), os.Getpid())
}

// CrashFile returns the file for the crash of the process, or "" if the log goes to standard
// error, where Go writes it as well.
func (o Options) CrashFile() string {
	switch {
	case o.ToStderr:
		return ""
	case o.File != "":
		return strings.TrimSuffix(o.File, filepath.Ext(o.File)) + "-crash.log"
	}
	return filepath.Join(o.dir(), o.Program+"-crash.log")
}

// CatchCrash makes Go write a panic that ends the process, and the stacks of all goroutines,
// to the file as well. If an earlier process has crashed, it returns where that is.
func CatchCrash(file string) (earlier string, err error) {
	debug.SetTraceback("all")
	now := time.Now()
	if info, err := os.Stat(file); err == nil && info.Size() > 0 {
		if earlier, err = makeBackup(file, info.ModTime()); err != nil {
			earlier = file // another process may have it open
		}
	}
	f, _, err := openAppend(file)
	if err != nil {
		return earlier, fmt.Errorf("open file for crashes: %w", err)
	}
	defer f.Close() // Go has its own handle
	if err := prune(file, Limits{Backups: crashBackups}, now); err != nil {
		return earlier, fmt.Errorf("delete old crashes: %w", err)
	}
	return earlier, debug.SetCrashOutput(f, debug.CrashOptions{})
}

// Goroutines returns the stacks of all goroutines, up to 4 MiB.
func Goroutines() string {
	b := make([]byte, 4<<20)
	return string(b[:runtime.Stack(b, true)])
}

// DumpIfStuck logs the stacks of all goroutines if stopped is not closed within limit after
// ctx has ended.
func DumpIfStuck(ctx context.Context, stopped <-chan struct{}, limit time.Duration) {
	select {
	case <-ctx.Done():
	case <-stopped:
		return
	}
	t := time.NewTimer(limit)
	defer t.Stop()
	select {
	case <-t.C:
		slog.Warn("Still stopping", "after", limit, "goroutines", Goroutines())
	case <-stopped:
	}
}

// attrOfJSON writes durations as text, and levels and sources shorter than slog does.
func attrOfJSON(groups []string, a slog.Attr) slog.Attr {
	if a.Value.Kind() == slog.KindDuration {
		return slog.String(a.Key, a.Value.Duration().String())
	}
	if len(groups) > 0 {
		return a
	}
	switch v := a.Value.Any().(type) {
	case slog.Level:
		if v < slog.LevelWarn {
			return slog.String(a.Key, slog.LevelInfo.String()) // what -v adds is below
		}
	case *slog.Source:
		return slog.String(a.Key, filepath.Base(filepath.Dir(v.File))+"/"+filepath.Base(v.File)+":"+strconv.Itoa(v.Line))
	}
	return a
}
