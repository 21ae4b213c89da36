package wine

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"unsafe"

	"golang.org/x/sys/windows"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"
	"google.golang.org/protobuf/types/dynamicpb"

	"github.com/kubernetes-csi/csi-proxy/client"
	"github.com/kubernetes-csi/csi-proxy/client/apiversion"
	"github.com/kubernetes-csi/csi-proxy/client/transport"
)

// watched puts a process into a job, which reports every process that it or its
// descendants start, however short-lived. started returns their programs, or the
// process ID of one that has ended.
func watched(t *testing.T, pid int) (started func() []string) {
	t.Helper()
	job, err := windows.CreateJobObject(nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { windows.CloseHandle(job) })
	port, err := windows.CreateIoCompletionPort(windows.InvalidHandle, 0, 0, 1)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { windows.CloseHandle(port) })
	tell := struct { // JOBOBJECT_ASSOCIATE_COMPLETION_PORT
		key  uintptr
		port windows.Handle
	}{1, port}
	if _, err := windows.SetInformationJobObject(job, windows.JobObjectAssociateCompletionPortInformation, uintptr(unsafe.Pointer(&tell)), uint32(unsafe.Sizeof(tell))); err != nil {
		t.Fatal(err)
	}
	h, err := windows.OpenProcess(windows.PROCESS_SET_QUOTA|windows.PROCESS_TERMINATE, false, uint32(pid))
	if err != nil {
		t.Fatal(err)
	}
	defer windows.CloseHandle(h)
	if err := windows.AssignProcessToJobObject(job, h); err != nil {
		t.Fatal(err)
	}
	next := windows.NewLazySystemDLL("kernel32.dll").NewProc("GetQueuedCompletionStatus")
	var all []string
	return func() []string {
		const newProcess = 6 // JOB_OBJECT_MSG_NEW_PROCESS, with its number
		for {
			var message uint32
			var key, number uintptr
			if ok, _, _ := next.Call(uintptr(port), uintptr(unsafe.Pointer(&message)), uintptr(unsafe.Pointer(&key)), uintptr(unsafe.Pointer(&number)), 0); ok == 0 {
				return all
			}
			if message == newProcess && int(number) != pid {
				all = append(all, programOf(uint32(number)))
			}
		}
	}
}

// programOf returns the path of a process's program, or its ID if it has ended.
func programOf(pid uint32) string {
	h, err := windows.OpenProcess(windows.PROCESS_QUERY_LIMITED_INFORMATION, false, pid)
	if err != nil {
		return fmt.Sprint(pid)
	}
	defer windows.CloseHandle(h)
	name := make([]uint16, 1024)
	n := uint32(len(name))
	if err := windows.QueryFullProcessImageName(h, 0, &name[0], &n); err != nil {
		return fmt.Sprint(pid)
	}
	return windows.UTF16ToString(name[:n])
}

// asStarter makes this test's binary start another process on request.
const asStarter = "CSI_PROXY_TEST_AS_STARTER"

// The job reports a process that ends at once.
func TestStartedProcessesReported(t *testing.T) {
	if os.Getenv(asStarter) != "" {
		bufio.NewReader(os.Stdin).ReadString('\n')
		if err := exec.Command(os.Args[0], "-test.run=^$").Run(); err != nil {
			t.Fatal(err)
		}
		return
	}
	c := exec.Command(os.Args[0], "-test.run=^TestStartedProcessesReported$")
	c.Env = append(os.Environ(), asStarter+"=1")
	stdin, err := c.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	started := watched(t, c.Process.Pid)
	if names := started(); len(names) != 0 {
		t.Errorf("%q before any process was started", names)
	}
	io.WriteString(stdin, "\n")
	if err := c.Wait(); err != nil {
		t.Fatal(err)
	}
	if names := started(); len(names) != 1 {
		t.Errorf("%q were started, want one", names)
	}
}

// No method of any version starts a process, neither on Windows' own calls nor on
// a simulated node. (The exception, FormatVolume with the native backend on a
// volume that can be formatted, starts csi-proxy.exe: package fmifs.)
func TestNoMethodStartsProcess(t *testing.T) {
	wine := windows.NewLazySystemDLL("ntdll.dll").NewProc("wine_get_version").Find() == nil
	for _, what := range []program{csiProxy, csiProxySim} {
		p := launch(t, what, "-smb-allow-loopback")
		started := watched(t, p.cmd.Process.Pid)
		p.awaitOutput(serving)
		called, done := 0, 0
		for _, name := range apiPipes() {
			group, version, _ := strings.Cut(strings.TrimPrefix(name, "csi-proxy-"), "-")
			conn, err := transport.Connect(client.PipePath(group, apiversion.NewVersionOrPanic(version)))
			if err != nil {
				t.Errorf("%s: %v", what, err)
				continue
			}
			c, d := callAll(t, conn, group, version)
			called, done = called+c, done+d
			conn.Close()
		}
		if want := apiMethods(); called != want || done < 20 {
			t.Errorf("%s: called %d methods, of which %d succeeded; want %d and some", what, called, done, want)
		}
		ours := slices.DeleteFunc(started(), func(name string) bool {
			// Wine creates its desktop in the first process that needs one.
			return strings.EqualFold(name, `C:\windows\system32\explorer.exe`) && wine
		})
		if len(ours) > 0 {
			t.Errorf("%s: calls of all methods started %q", what, ours)
		}
		measured(t, "methods called of %s: %d, of which %d succeeded; processes started: %d", filepath.Base(p.cmd.Path), called, done, len(ours))
		p.kill()
	}
}

// callAll calls each method of a service once.
func callAll(t *testing.T, conn grpc.ClientConnInterface, group, version string) (called, done int) {
	t.Helper()
	protoregistry.GlobalFiles.RangeFilesByPackage(protoreflect.FullName(version), func(f protoreflect.FileDescriptor) bool {
		for i := range f.Services().Len() {
			s := f.Services().Get(i)
			if !strings.EqualFold(string(s.Name()), group) {
				continue
			}
			for j := range s.Methods().Len() {
				m := s.Methods().Get(j)
				in := dynamicpb.NewMessage(m.Input())
				something(in, m)
				ctx, cancel := context.WithTimeout(t.Context(), timeout)
				err := conn.Invoke(ctx, fmt.Sprintf("/%s/%s", s.FullName(), m.Name()), in, dynamicpb.NewMessage(m.Output()))
				cancel()
				called++
				switch status.Code(err) {
				case codes.OK:
					done++
				case codes.Unimplemented: // this Windows may lack it
					if strings.Contains(err.Error(), "unknown ") {
						t.Errorf("%s %s: %v", version, m.FullName(), err)
					}
				case codes.DeadlineExceeded, codes.Canceled:
					t.Errorf("%s %s: %v", version, m.FullName(), err)
				}
			}
		}
		return true
	})
	return called, done
}

// something fills a request with harmless values that reach far into the code: a
// directory of the kubelet, a volume and a disk that do not exist, a service that
// may not be started.
func something(in protoreflect.Message, m protoreflect.MethodDescriptor) {
	for i := range in.Descriptor().Fields().Len() {
		f := in.Descriptor().Fields().Get(i)
		name := strings.ToLower(string(f.Name()))
		switch {
		case f.IsList() || f.IsMap():
		case f.Kind() == protoreflect.MessageKind:
			something(in.Mutable(f).Message(), m)
		case f.Kind() == protoreflect.StringKind:
			text := "98"
			switch {
			case strings.Contains(name, "remote"):
				text = `\\127.0.0.1\nothing`
			case strings.Contains(name, "path"):
				text = `C:\var\lib\kubelet\pods\` + name
			case strings.Contains(name, "volume"):
				text = `\\?\Volume{00000000-1111-2222-3333-444444444444}\`
			case name == "name":
				text = "Spooler"
			}
			in.Set(f, protoreflect.ValueOfString(text))
		case f.Kind() == protoreflect.Uint32Kind:
			in.Set(f, protoreflect.ValueOfUint32(98))
		case f.Kind() == protoreflect.EnumKind:
			in.Set(f, protoreflect.ValueOfEnum(1))
		}
	}
}
