package wine

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/windows"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	diskapi "github.com/kubernetes-csi/csi-proxy/client/api/disk/v1"
	volumeapi "github.com/kubernetes-csi/csi-proxy/client/api/volume/v1"
	disk "github.com/kubernetes-csi/csi-proxy/client/groups/disk/v1"
	volume "github.com/kubernetes-csi/csi-proxy/client/groups/volume/v1"
	"github.com/kubernetes-csi/csi-proxy/client/pipe"
	"github.com/kubernetes-csi/csi-proxy/v2/internal/apiserver/pipes"
	"github.com/kubernetes-csi/csi-proxy/v2/internal/node/nodetest"
	"github.com/kubernetes-csi/csi-proxy/v2/pkg/simnode/control"
	"github.com/kubernetes-csi/csi-proxy/v2/pkg/simnode/nodespec"
)

// container starts csi-proxy-sim as the runtime of HostProcess containers starts a program: as
// the child of cmd.exe. The end of the test kills both.
func container(t *testing.T) (init *process, child *os.Process) {
	t.Helper()
	init = launchCommand(t, "cmd.exe", "/c", csiProxySim.path(t), "-v=2")
	init.awaitOutput(serving)
	var pid uint32
	err := nodetest.Eventually(timeout, func() (err error) { // a pipe whose instances are in use is busy
		pid, _, err = pipes.ServerOf(pipe.Path("csi-proxy-disk-v1"))
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	if int(pid) == init.cmd.Process.Pid {
		t.Fatal("cmd.exe serves the pipe itself")
	}
	if child, err = os.FindProcess(int(pid)); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { child.Kill() }) // fails if it has ended
	return init, child
}

// format begins to format a volume of the simulated node, which takes that long, and returns
// when it runs.
func format(t *testing.T, long time.Duration) (answer <-chan error) {
	t.Helper()
	disks, err := disk.NewClient()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { disks.Close() })
	volumes, err := volume.NewClient()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { volumes.Close() })
	if _, err := disks.PartitionDisk(t.Context(), &diskapi.PartitionDiskRequest{DiskNumber: 1}); err != nil {
		t.Fatal(err)
	}
	list, err := volumes.ListVolumesOnDisk(t.Context(), &volumeapi.ListVolumesOnDiskRequest{DiskNumber: 1})
	if err != nil || len(list.VolumeIds) != 1 {
		t.Fatalf("volumes of the disk: %v, %v", list, err)
	}
	node, err := control.Open(t.Context(), "")
	if err != nil {
		t.Fatal(err)
	}
	defer node.Close()
	if err := node.Fail(nodespec.Fault{Call: "Format", Times: 1, Delay: long}); err != nil {
		t.Fatal(err)
	}
	done := make(chan error, 1)
	go func() {
		_, err := volumes.FormatVolume(context.Background(), &volumeapi.FormatVolumeRequest{VolumeId: list.VolumeIds[0]})
		done <- err
	}()
	err = nodetest.Eventually(timeout, func() error {
		out, err := node.Show()
		if err == nil && (len(out.Faults) != 1 || out.Faults[0].Hits != 1) {
			err = fmt.Errorf("the volume is not being formatted: %+v", out.Faults)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return done
}

// The preStop hook of the chart ends when the call has ended, then csi-proxy, then the container.
func TestPreStopWaitsForCalls(t *testing.T) {
	init, child := container(t)
	const long = 10 * time.Second
	begin := time.Now()
	answer := format(t, long)
	hook := exec.Command(filepath.Join(filepath.Dir(csiProxySim.path(t)), "csi-proxyctl.exe"), "stop", "--timeout=1m")
	out, err := hook.CombinedOutput()
	if err != nil || !strings.Contains(string(out), "no call runs") {
		t.Errorf("csi-proxyctl stop: %v\n%s", err, out)
	}
	if took := time.Since(begin); took < long {
		t.Errorf("the hook ended after %v, before the volume was formatted", took)
	}
	if err := <-answer; err != nil {
		t.Errorf("FormatVolume = %v, want its answer", err)
	}
	if state, err := child.Wait(); err != nil || !state.Success() {
		t.Errorf("csi-proxy ended with %v, %v", state, err)
	}
	if err := init.cmd.Wait(); err != nil {
		t.Errorf("cmd.exe, and so the container, ended with %v", err)
	}
}

// Without the hook the runtime signals cmd.exe alone, which ends, and then csi-proxy, 5 s before
// it ends the job. csi-proxy ends before that by itself, and the running call has an answer.
func TestSignalOfContainerCutsCalls(t *testing.T) {
	init, child := container(t)
	answer := format(t, 10*time.Minute)
	if err := init.cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	if _, err := init.cmd.Process.Wait(); err != nil {
		t.Fatal(err)
	}
	signal(t, child, windows.CTRL_SHUTDOWN_EVENT)
	init.awaitOutput(regexp.MustCompile(`Waiting for running calls to finish" calls=1 limit="3s"`))
	if err := <-answer; status.Code(err) != codes.Unavailable {
		t.Errorf("FormatVolume = %v, want %v", err, codes.Unavailable)
	}
	if state, err := child.Wait(); err != nil || state.ExitCode() != 1 {
		t.Errorf("csi-proxy ended with %v, %v, want exit code 1, because it cut a call off", state, err)
	}
	init.awaitOutput(regexp.MustCompile(`cut off 1 calls`))
}

// nssm.exe runs csi-proxy as a console program without -windows-service, with its output in files
// that it opens to append, and stops it with Ctrl-C.
func TestConsoleProgramOfNssm(t *testing.T) {
	log := filepath.Join(t.TempDir(), "csi-proxy.err.log")
	if err := os.WriteFile(log, []byte("of the last run\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	output, err := os.OpenFile(log, os.O_APPEND|os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer output.Close()
	c := exec.Command(csiProxySim.path(t))
	c.Stderr = output
	c.SysProcAttr = &windows.SysProcAttr{CreationFlags: windows.CREATE_NEW_CONSOLE}
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Process.Kill() }) // fails if it has ended
	logged := func(what string) {
		t.Helper()
		err := nodetest.Eventually(timeout, func() error {
			text, err := os.ReadFile(log)
			if err == nil && !regexp.MustCompile(`^of the last run\n(?s:.*)`+what).Match(text) {
				err = fmt.Errorf("no %q in the log:\n%s", what, text)
			}
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	logged(serving.String())
	answer := format(t, time.Second)
	signal(t, c.Process, windows.CTRL_C_EVENT)
	if err := <-answer; err != nil {
		t.Errorf("FormatVolume = %v, want its answer", err)
	}
	if err := c.Wait(); err != nil {
		t.Errorf("csi-proxy ended with %v", err)
	}
	logged("Waiting for running calls to finish")
}

// signal sends an event to a process of another console as hcsshim does: by a thread in it that
// calls the function which Windows calls for the event.
func signal(t *testing.T, p *os.Process, event uintptr) {
	t.Helper()
	h, err := windows.OpenProcess(windows.PROCESS_CREATE_THREAD|windows.PROCESS_QUERY_INFORMATION|windows.PROCESS_VM_OPERATION|windows.PROCESS_VM_WRITE|windows.PROCESS_VM_READ, false, uint32(p.Pid))
	if err != nil {
		t.Fatal(err)
	}
	defer windows.CloseHandle(h)
	kernel32 := windows.NewLazySystemDLL("kernel32.dll")
	routine := kernel32.NewProc("CtrlRoutine")
	if err := routine.Find(); err != nil {
		t.Fatal(err)
	}
	thread, _, err := kernel32.NewProc("CreateRemoteThread").Call(uintptr(h), 0, 0, routine.Addr(), event, 0, 0)
	if thread == 0 {
		t.Fatal(err)
	}
	windows.CloseHandle(windows.Handle(thread))
}
