package winsvc

import (
	"strings"
	"testing"
)

func TestProgramsWithBlanks(t *testing.T) {
	for command, want := range map[string]string{
		`C:\Program Files\csi-proxy\csi-proxy.exe -windows-service -kubelet-path="C:\a b"`: `"C:\Program Files\csi-proxy\csi-proxy.exe" -windows-service -kubelet-path="C:\a b"`,
		`C:\Program Files\csi-proxy\CSI-Proxy.EXE`:                                         `"C:\Program Files\csi-proxy\CSI-Proxy.EXE"`,
		`"C:\a b\csi-proxy.exe" -v=2`:                                                      `"C:\a b\csi-proxy.exe" -v=2`,
		`C:\w\cmd.exe /c C:\k\csi-proxy.exe`:                                               `"C:\w\cmd.exe" /c C:\k\csi-proxy.exe`,
		`C:\k\program -v=2`:                                                                `C:\k\program -v=2`,
		``:                                                                                 ``,
	} {
		if got := inQuotes(command); got != want {
			t.Errorf("inQuotes(%s) = %s, want %s", command, got, want)
		}
	}
}

func TestProgramNames(t *testing.T) {
	for path, want := range map[string]bool{
		`C:\a\csi-proxy.exe`: true, `C:\k\csi-proxy-server.exe`: true, `csi-proxy-v1.3.0.exe`: true, `c:/a/CSIPROXY.EXE`: true, `C:csi-proxy.exe`: true,
		`C:\a\csi-proxyctl.exe`: false, `C:\csi-proxy\nssm.exe`: false, `C:\a\csi-proxy-verify.exe`: false, `C:\a\csi-proxy-sim.exe`: false, ``: false,
	} {
		if is := isProgram(path); is != want {
			t.Errorf("isProgram(%q) = %t, want %t", path, is, want)
		}
	}
	for args, want := range map[string]bool{
		"-windows-service -nonsense": true, "-v=2 --windows-service=1": true, "-windows-service=True": true,
		"--windows-service=false windows-service": false, "-windows-service=yes": false,
	} {
		if is := Asked(strings.Fields(args)); is != want {
			t.Errorf("Asked(%q) = %t, want %t", args, is, want)
		}
	}
}
