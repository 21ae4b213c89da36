package main

import (
	"bytes"
	"context"
	"strings"
	"testing"
)

func TestVersion(t *testing.T) {
	for _, arg := range []string{"version", "-version", "--version"} {
		var stdout, stderr bytes.Buffer
		if code := run(context.Background(), []string{arg}, nil, &stdout, &stderr); code != 0 || stdout.String() != version+"\n" || stderr.Len() > 0 {
			t.Errorf("csi-proxy-sim %s: exit code %d, %q, %q", arg, code, stdout.String(), stderr.String())
		}
	}
}

func TestFlags(t *testing.T) {
	for _, c := range []struct {
		args []string
		code int
		want string
	}{
		{[]string{"-h"}, 0, "-node-config file"},
		{[]string{"-state-dir=/x", "-h"}, 0, "-state-dir directory"},
		// csi-proxy-sim does not have the flags of csi-proxy.
		{[]string{"-format-backend=wmi"}, 2, "flag provided but not defined: -format-backend"},
		{[]string{"-smb-backend=native"}, 2, "flag provided but not defined: -smb-backend"},
		{[]string{"-host=windows"}, 2, "flag provided but not defined: -host"},
	} {
		var stderr bytes.Buffer
		code := run(context.Background(), c.args, strings.NewReader(""), &stderr, &stderr)
		output := stderr.String()
		usage := strings.Contains(output, "Usage of csi-proxy-sim:")
		if code != c.code || !strings.Contains(output, c.want) || usage != (c.code == 0) {
			t.Errorf("csi-proxy-sim %q: exit code %d, want %d and %q; the usage belongs to -h alone:\n%s", c.args, code, c.code, c.want, output)
		}
	}
}
