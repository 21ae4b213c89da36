package main

import (
	"cmp"
	"fmt"
	"os"
	"regexp"
	"strings"
	"testing"
)

func TestSubjectOf(t *testing.T) {
	const id = `\\?\Volume{12345678-90ab-4cde-8f01-234567890abc}\`
	for text, want := range map[string]subject{
		`C:\var\lib\kubelet\pods\a b`: {kind: aPath, text: `C:\var\lib\kubelet\pods\a b`},
		`/var/lib/kubelet/pods/x`:     {kind: aPath, text: `/var/lib/kubelet/pods/x`},
		`\\nas\data\team`:             {kind: aPath, text: `\\nas\data\team`},
		id:                            {kind: aVolume, text: id},
		`Volume{12345678-90AB-4cde-8f01-234567890abc}`: {kind: aVolume, text: id},
		`12`:                       {kind: aDisk, disk: 12},
		`disk 3`:                   {kind: aDisk, disk: 3},
		`\\.\PhysicalDrive4`:       {kind: aDisk, disk: 4},
		`disk/v1`:                  {kind: aPipe, text: "csi-proxy-disk-v1"},
		`csi-proxy-smb-v1beta1`:    {kind: aPipe, text: "csi-proxy-smb-v1beta1"},
		`\\.\pipe\csi-proxy-admin`: {kind: aPipe, text: "csi-proxy-admin"},
		`pvc-8f2c`:                 {kind: aName, text: "pvc-8f2c"},
		`12 GiB`:                   {kind: aName, text: "12 GiB"},
		// What kubectl describe prints.
		`map share "\\nas\logs": server "nas": share \\nas\data is mapped for user "ann"; Windows allows one user at a time`: {kind: aPath, text: `\\nas\data`},
		`MountVolume.MountDevice failed for volume "pvc-1" : rpc error: code = Internal desc = error mount volume to C:\\var\\lib\\kubelet\\plugins\\kubernetes.io\\csi\\pv\\pvc-1\\globalmount: The device is not ready.`: {
			kind: aPath, text: `C:\var\lib\kubelet\plugins\kubernetes.io\csi\pv\pvc-1\globalmount`},
		`MountVolume.SetUp failed for volume "pvc-1" : rpc error: code = Internal desc = stat "/var/lib/kubelet/pods/x/mount": gone`: {kind: aPath, text: `/var/lib/kubelet/pods/x/mount`},
		`rpc error: code = Internal desc = open \\.\pipe\csi-proxy-disk-v1: The system cannot find the file specified.`:              {kind: aPipe, text: "csi-proxy-disk-v1"},
		`rpc error: desc = get state of disk 7: the disk was not found`:                                                              {kind: aDisk, disk: 7},
		`rpc error: desc = format volume ` + id + `: denied`:                                                                         {kind: aVolume, text: id},
		`MountVolume.SetUp failed for volume "pvc-1" : context deadline exceeded`:                                                    {kind: aName, text: "pvc-1"},
	} {
		if got := subjectOf(text); got != want {
			t.Errorf("subjectOf(%s) = %+v, want %+v", text, got, want)
		}
	}
}

// What the kubelet, drivers and the container runtime print, with every level of quoting.
func TestEvents(t *testing.T) {
	n := 0
	for s, want := range events(t) {
		n++
		if got := inWords(subjectOf(s.text)); got != s.subject {
			t.Errorf("%s:\n got %s\nwant %s", s.text, got, want)
		}
		if key, result, cause, command := causeIn(s.text); cmp.Or(key, "-") != s.cause || (key != "") != (result != "" && cause != "" && command != "") {
			t.Errorf("%s: the cause %q, want %q", s.text, key, s.cause)
		}
	}
	if n < 80 {
		t.Errorf("%d texts, want 80", n)
	}
}

type event struct{ subject, cause, text string }

func events(t testing.TB) func(func(event, string) bool) {
	file, err := os.ReadFile("testdata/events.tsv")
	if err != nil {
		t.Fatal(err)
	}
	return func(yield func(event, string) bool) {
		for line := range strings.Lines(string(file)) {
			f := strings.SplitN(strings.TrimSuffix(line, "\n"), "\t", 3)
			if !strings.HasPrefix(line, "#") && !yield(event{f[0], f[1], f[2]}, f[0]) {
				return
			}
		}
	}
}

func inWords(s subject) string {
	switch {
	case s.kind == aPath:
		return "path " + s.text
	case s.kind == aVolume:
		return "volume " + s.text
	case s.kind == aDisk:
		return fmt.Sprintf("disk %d", s.disk)
	case s.kind == aPipe:
		return "pipe " + s.text
	case isSentence(s.text):
		return "none"
	}
	return "name " + s.text
}

// No text makes it name a subject that does not stand in it.
func FuzzSubjectOf(f *testing.F) {
	for e := range events(f) {
		f.Add(e.text)
	}
	f.Add(`\\\\nas\\data`)
	same := func(text string) string {
		return strings.ToLower(regexp.MustCompile(`[\\/]+`).ReplaceAllString(text, `\`))
	}
	f.Fuzz(func(t *testing.T, text string) {
		s := subjectOf(text)
		found := same(s.text)
		switch s.kind {
		case aDisk:
			found = fmt.Sprint(s.disk)
			text = strings.ReplaceAll(text, "0", "") // leading zeros
			found = strings.ReplaceAll(found, "0", "")
		case aPipe:
			if apiName.MatchString(strings.TrimSpace(text)) {
				found = strings.Replace(strings.TrimPrefix(found, "csi-proxy-"), "-", `\`, 1)
			}
		case aVolume:
			found = strings.Trim(strings.TrimPrefix(found, `\?\`), `\`)
		}
		if !strings.Contains(same(text), found) {
			t.Errorf("%q: %q is not in it", text, found)
		}
		causeIn(text)
	})
}
