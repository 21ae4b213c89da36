package main

import (
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/spf13/pflag"

	"github.com/kubernetes-csi/csi-proxy/v2/pkg/simnode/nodespec"
)

func bind[T any](flags func(*pflag.FlagSet, *T)) func(*pflag.FlagSet) any {
	return func(f *pflag.FlagSet) any {
		to := new(T)
		flags(f, to)
		return to
	}
}

func TestDiskAddressFlags(t *testing.T) {
	for _, c := range []struct {
		args []string
		want nodespec.Address
		text string // of the error
	}{
		{args: []string{"--lun=3"}, want: nodespec.Address{Lun: 3}},
		{args: []string{"--address=1:2:3:4"}, want: nodespec.Address{Port: 1, Path: 2, Target: 3, Lun: 4}},
		{args: []string{"--address=1:2:3:4", "--lun=255"}, want: nodespec.Address{Port: 1, Path: 2, Target: 3, Lun: 255}},
		{args: []string{"--lun=256"}, text: "from 0 to 255"},
		{args: []string{"--lun=-1"}, text: "from 0 to 255"},
		{args: []string{"--address=1:2:3"}, text: "PORT:PATH:TARGET:LUN"},
		{args: []string{"--address=1:2:3:x"}, text: `"x"`},
	} {
		var flags pflag.FlagSet
		var d nodespec.Disk
		diskFlags(&flags, &d)
		err := flags.Parse(c.args)
		switch {
		case c.text != "":
			if err == nil || !strings.Contains(err.Error(), c.text) {
				t.Errorf("%q: %v, want an error with %s", c.args, err, c.text)
			}
		case err != nil || d.Address == nil || *d.Address != c.want:
			t.Errorf("%q: %v, %v, want %v", c.args, d.Address, err, c.want)
		}
	}
}

// Each field of a description has a flag, or is listed here because only files can set it.
func TestFieldsHaveFlags(t *testing.T) {
	for _, c := range []struct {
		name string
		bind func(*pflag.FlagSet) any // returns a pointer to the description
		args []string                 // one value for each flag
		none []string                 // fields without a flag
	}{
		{
			name: "attach", bind: bind(diskFlags), args: []string{"--size=1GiB", "--sector-size=4096", "--serial=s", "--page83=p", "--id=i", "--content=gpt",
				"--eui64=0011223344556677", "--naa=600224801fe42a5c", "--bus=nvme", "--vendor=v", "--product=p", "--location=l", "--address=1:2:3:4", "--lun=5", "--image=f"},
			none: []string{"Number", "Partitions", "Bytes", "Offline", "ReadOnly", "WriteProtected", "Revision", "Clustered", "Namespace", "Removable"},
		},
		{
			name: "fail", bind: bind(faultFlags), args: []string{"--error=5", "--code=1", "--path=p", "--times=1", "--skip=1", "--delay=1s"},
			none: []string{"Call", "Code", "Do", "Hits"},
		},
		{
			name: "service", bind: bind(serviceFlags), args: []string{"--display-name=d", "--start=auto", "--state=paused", "--depends-on=a", "--start-delay=1s", "--stop-delay=1s", "--wait-hint=1s",
				"--start-error=1", "--dies=1", "--refuses-stop", "--hangs=stop"},
			none: []string{"Name"}, // an argument
		},
		{
			name: "iscsi set", bind: bind(targetFlags), args: []string{"--portal=10.0.0.1:1", "--lun=1GiB", "--arrival-delay=1s", "--refuses", "--unreachable", "--busy", "--persistent"},
			none: []string{"IQN", "CHAP"}, // an argument; --chap-user and the environment
		},
		{
			name: "smb add", bind: bind(serverFlags), args: []string{"--share=s", "--no-encryption", "--node-account"},
			none: []string{"Name", "Accounts"}, // an argument; smb password
		},
	} {
		var flags pflag.FlagSet
		to := reflect.ValueOf(c.bind(&flags))
		if err := flags.Parse(c.args); err != nil {
			t.Fatalf("%s: %v", c.name, err)
		}
		flags.VisitAll(func(f *pflag.Flag) {
			if !f.Changed {
				t.Errorf("%s: the test does not set --%s", c.name, f.Name)
			}
		})
		for i := range to.Elem().NumField() {
			field := to.Elem().Type().Field(i).Name
			if set := !to.Elem().Field(i).IsZero(); set == slices.Contains(c.none, field) {
				t.Errorf("%s: field %s is set by a flag: %t, listed in none: %[3]t", c.name, field, set)
			}
		}
	}
}
