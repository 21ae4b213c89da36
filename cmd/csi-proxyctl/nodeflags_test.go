package main

import (
	"reflect"
	"slices"
	"testing"

	"github.com/spf13/pflag"
)

func bind[T any](flags func(*pflag.FlagSet, *T)) func(*pflag.FlagSet) any {
	return func(f *pflag.FlagSet) any {
		to := new(T)
		flags(f, to)
		return to
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
			name: "attach", bind: bind(diskFlags), args: []string{"--size=1GiB", "--sector-size=4096", "--serial=s", "--page83=p", "--id=i", "--content=gpt"},
			none: []string{"Number", "Image", "Partitions", "Bytes", "Offline", "ReadOnly", "WriteProtected", "Bus", "Vendor", "Product", "Revision", "Location", "Address"},
		},
		{
			name: "fail", bind: bind(faultFlags), args: []string{"--error=5", "--code=1", "--times=1", "--delay=1s"},
			none: []string{"Call", "Path", "Skip", "Do", "Hits"},
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
