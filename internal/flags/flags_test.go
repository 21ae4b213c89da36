package flags

import (
	"flag"
	"io"
	"reflect"
	"slices"
	"testing"

	"github.com/kubernetes-csi/csi-proxy/v2/pkg/rules"
)

// Each flag changes what it is for: without this, one that does nothing would parse as well.
func TestServed(t *testing.T) {
	served := func(args ...string) (Served, error) {
		var o Served
		f := flag.NewFlagSet("csi-proxy", flag.ContinueOnError)
		f.SetOutput(io.Discard)
		o.Add(f)
		return o, f.Parse(args)
	}
	defaults, err := served()
	if err != nil {
		t.Fatal(err)
	}
	values := map[string]string{
		"kubelet-path": `D:\k`, "working-dir": `D:\w`, "protected-dir": `D:\p`, "service-allow": "vmic", "enable-api": "disk", "format-existing": "ntfs",
		"disk-locations": "all", "read-only-disks": "keep", "disk-content": "cleaned", "volume-root-access": "users-modify", "unknown-fields": "log",
		"require-privacy": "false",
	}
	f := flag.NewFlagSet("csi-proxy", flag.ContinueOnError)
	new(Served).Add(f)
	f.VisitAll(func(fl *flag.Flag) {
		value := values[fl.Name]
		if value == "" {
			value = "true"
		}
		now, err := served("-" + fl.Name + "=" + value)
		if err != nil {
			t.Errorf("-%s=%s: %v", fl.Name, value, err)
		} else if reflect.DeepEqual(now, defaults) {
			t.Errorf("-%s=%s changes nothing", fl.Name, value)
		}
		if now, err := served("-" + fl.Name + "="); err == nil && !slices.Contains([]string{"kubelet-path", "enable-api"}, fl.Name) {
			t.Errorf("-%s= is %+v, want an error", fl.Name, now)
		}
	})
	o, err := served(`-kubelet-path=D:\k`, `-working-dir=C:\a`, `-working-dir=D:\b`, "-service-allow=x", "-enable-api=disk,volume/v1", "-disk-content=unknown", "-require-privacy=false")
	if err != nil {
		t.Fatal(err)
	}
	want := rules.Rules{WorkingDirs: []string{`C:\a`, `D:\b`, `D:\k`}, AllowedServices: []string{"MSiSCSI", "x"}, DiskContent: rules.DiskContentUnknown, NoSMBPrivacy: true}
	if have := o.Rules(); !reflect.DeepEqual(have, want) || !slices.Equal(o.APIs(), []string{"disk", "volume/v1"}) {
		t.Errorf("the rules are %+v and the APIs %q, want %+v", have, o.APIs(), want)
	}
	if o.KubeletPath = " "; o.Check() == nil {
		t.Error("an empty path of the kubelet has no error")
	}
}
