package fmifs

import (
	"os/exec"
	"syscall"
	"unsafe"

	"golang.org/x/sys/windows"

	"github.com/kubernetes-csi/csi-proxy/v2/internal/win32"
)

// isolate keeps the helper from showing a window and from receiving Ctrl-C.
func isolate(c *exec.Cmd) {
	c.SysProcAttr = &syscall.SysProcAttr{HideWindow: true, CreationFlags: windows.CREATE_NO_WINDOW | windows.CREATE_NEW_PROCESS_GROUP}
}

// confine puts a child, which must not have been waited for, into a job that ends
// with leave or with this process. Windows then kills the processes in it. A
// child that crashes shows no dialog.
// https://learn.microsoft.com/windows/win32/procthread/job-objects
func confine(pid int) (leave func(), err error) {
	job, err := windows.CreateJobObject(nil, nil)
	if err != nil {
		return nil, errorOf(err)
	}
	limits := windows.JOBOBJECT_EXTENDED_LIMIT_INFORMATION{BasicLimitInformation: windows.JOBOBJECT_BASIC_LIMIT_INFORMATION{
		LimitFlags: windows.JOB_OBJECT_LIMIT_KILL_ON_JOB_CLOSE | windows.JOB_OBJECT_LIMIT_DIE_ON_UNHANDLED_EXCEPTION,
	}}
	_, err = windows.SetInformationJobObject(job, windows.JobObjectExtendedLimitInformation, uintptr(unsafe.Pointer(&limits)), uint32(unsafe.Sizeof(limits)))
	if err == nil {
		var child windows.Handle
		if child, err = windows.OpenProcess(windows.PROCESS_SET_QUOTA|windows.PROCESS_TERMINATE, false, uint32(pid)); err == nil {
			err = windows.AssignProcessToJobObject(job, child)
			windows.CloseHandle(child)
		}
	}
	if err != nil {
		windows.CloseHandle(job)
		return nil, errorOf(err)
	}
	return func() { windows.CloseHandle(job) }, nil
}

func errorOf(err error) error {
	if e, ok := err.(syscall.Errno); ok {
		return win32.Errno(e)
	}
	return err
}
