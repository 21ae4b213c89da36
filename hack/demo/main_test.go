package main

import (
	"bytes"
	"os/exec"
	"strings"
	"testing"
)

func TestDemoFailsWithItsDaemon(t *testing.T) {
	if _, err := exec.LookPath("sgdisk"); err != nil {
		t.Skip("needs sgdisk, of the Debian package gdisk, which make test installs")
	}
	t.Setenv("CSI_PROXY_DIR", "") // the demo sets it; the test restores it
	for _, program := range []string{"no-such-program", "false"} {
		var stdout, stderr bytes.Buffer
		if code := run(t.Context(), []string{"-csi-proxy-sim", program}, &stdout, &stderr); code != 1 {
			t.Errorf("with the daemon %q: exit code %d, want 1", program, code)
		}
		if strings.Contains(stdout.String(), "All passed") || stderr.Len() == 0 {
			t.Errorf("with the daemon %q it printed %q and %q", program, &stdout, &stderr)
		}
	}
}

func TestCheckThatDoesNotHoldIsAnError(t *testing.T) {
	var out bytes.Buffer
	d := &demo{out: &out}
	if err := d.check(false, "the moon is %s", "cheese"); err == nil || !strings.Contains(out.String(), "FAILED: the moon is cheese") {
		t.Errorf("check = %v, printed %q", err, &out)
	}
	if err := d.check(true, "water is wet"); err != nil || d.checks != 2 {
		t.Errorf("check = %v after %d checks", err, d.checks)
	}
}

func TestNear(t *testing.T) {
	for _, c := range []struct {
		size, disk int64
		want       bool
	}{{1 << 30, 1 << 30, true}, {1<<30 - 20<<20, 1 << 30, true}, {1<<30 - 21<<20, 1 << 30, false}, {1<<30 + 1, 1 << 30, false}, {0, 1 << 30, false}} {
		if got := near(c.size, c.disk); got != c.want {
			t.Errorf("near(%d, %d) = %t, want %t", c.size, c.disk, got, c.want)
		}
	}
}
