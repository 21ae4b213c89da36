package main

import (
	"context"
	"testing"

	"github.com/kubernetes-csi/csi-proxy/v2/pkg/rules"
)

// What the daemon does at its start works on the stub, too. It logged the stack of a call
// that the stub does not have.
func TestStubHasTheCallsOfTheStart(t *testing.T) {
	n, err := stubHost{}.Open(rules.Rules{WorkingDirs: []string{`C:\var\lib\kubelet`}}, nil)
	if err != nil {
		t.Fatal(err)
	}
	if err := n.Groups.SMB.(interface{ Survey(context.Context) error }).Survey(t.Context()); err != nil {
		t.Error(err)
	}
}
