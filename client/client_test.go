package client_test

import (
	"fmt"
	"testing"

	"github.com/kubernetes-csi/csi-proxy/client"
	"github.com/kubernetes-csi/csi-proxy/client/apiversion"
	"github.com/kubernetes-csi/csi-proxy/client/pipe"
)

func ExamplePipePath() {
	fmt.Println(client.PipePath("disk", apiversion.NewVersionOrPanic("v1beta3")))
	// Output: \\.\\pipe\\csi-proxy-disk-v1beta3
}

func TestPipePathContainsName(t *testing.T) {
	path := client.PipePath("filesystem", apiversion.NewVersionOrPanic("v2alpha1"))
	name, err := pipe.Name(path)
	if want := "csi-proxy-filesystem-v2alpha1"; name != want || err != nil {
		t.Errorf("pipe.Name(%q) = %q, %v, want %q", path, name, err, want)
	}
}
