package cloud

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"strings"
)

// What the metadata servers say about the node.
const (
	project  = "lab-project"         // of GCE
	zone     = "us-central1-a"       // of GCE
	instance = "lab-node"            // of GCE
	region   = "us-east-1"           // of EC2
	ec2Node  = "i-0123456789abcdef0" // ID of the instance of EC2
	machine  = "n2-standard-4"
)

// Metadata is the metadata server of EC2 and GCE, as far as CSI drivers ask. It is also
// an HTTP proxy for those that ask a fixed address:
//
//	GCE PD  GCE_METADATA_HOST=<address>, HTTP_PROXY=http://<address>
//	EBS     AWS_EC2_METADATA_SERVICE_ENDPOINT=http://<address>
//
// Answers are of the published forms of both clouds. Everything else is 404.
func (c *Controller) Metadata() http.Handler {
	texts := map[string]string{
		"/computeMetadata/v1/project/project-id":        project,
		"/computeMetadata/v1/instance/zone":             "projects/123456789012/zones/" + zone,
		"/computeMetadata/v1/instance/name":             instance,
		"/computeMetadata/v1/instance/machine-type":     "projects/123456789012/machineTypes/" + machine,
		"/latest/meta-data/block-device-mapping":        "ami\nroot",
		"/latest/meta-data/instance-id":                 ec2Node,
		"/latest/meta-data/placement/region":            region,
		"/latest/meta-data/network/interfaces/macs":     "0a:00:00:00:00:01/",
		"/latest/meta-data/instance-type":               "m5.large",
		"/latest/meta-data/placement/availability-zone": region + "a",
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		// Clients recognize GCE by this header. Windows' own proxies add no path.
		w.Header().Set("Metadata-Flavor", "Google")
		path := strings.TrimRight(r.URL.Path, "/")
		switch {
		case path == "/latest/api/token" && r.Method == http.MethodPut:
			w.Header().Set("X-Aws-Ec2-Metadata-Token-Ttl-Seconds", "21600")
			fmt.Fprint(w, "token")
		case r.Method != http.MethodGet:
			http.Error(w, "want GET", http.StatusMethodNotAllowed)
		case path == "":
			fmt.Fprint(w, "computeMetadata/\n")
		case path == "/computeMetadata/v1/instance/disks":
			writeJSON(w, c.googleDisks())
		case path == "/latest/dynamic/instance-identity/document":
			writeJSON(w, map[string]string{"instanceId": ec2Node, "instanceType": "m5.large", "region": region,
				"availabilityZone": region + "a", "accountId": "123456789012", "architecture": "x86_64"})
		case texts[path] != "":
			fmt.Fprint(w, texts[path])
		default:
			http.NotFound(w, r)
		}
	})
}

func writeJSON(w http.ResponseWriter, v any) {
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(v) // the client is gone
}

// googleDisk is a disk as GCE's metadata server lists it.
type googleDisk struct {
	DeviceName string `json:"deviceName"`
	Index      int    `json:"index"`
	Interface  string `json:"interface"`
	Mode       string `json:"mode"`
	Namespace  uint64 `json:"nvmeNamespaceIdentifier,omitempty"`
	Type       string `json:"type"`
}

func (c *Controller) googleDisks() []googleDisk {
	disks := []googleDisk{{DeviceName: "persistent-disk-0", Interface: "SCSI", Mode: "READ_WRITE", Type: "PERSISTENT"}}
	for _, v := range c.attached() {
		d := googleDisk{DeviceName: base(v.id), Index: v.slot + 1, Interface: "SCSI", Mode: "READ_WRITE", Type: "PERSISTENT"}
		if c.cloud.Name == "gce-nvme" {
			d.Interface, d.Namespace = "NVME", v.namespace()
		}
		disks = append(disks, d)
	}
	return disks
}

// StartMetadata serves [Controller.Metadata] on a port of this machine until the context
// ends, and returns its address.
func (c *Controller) StartMetadata(ctx context.Context) (address string, err error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", err
	}
	s := &http.Server{Handler: c.Metadata()}
	context.AfterFunc(ctx, func() { _ = s.Close() })
	go func() {
		if err := s.Serve(l); !errors.Is(err, http.ErrServerClosed) {
			_ = l.Close()
		}
	}()
	return l.Addr().String(), nil
}

// Environment returns the variables of the environment with which drivers ask a metadata
// server at this address, and no other.
func Environment(address string) []string {
	return []string{
		"GCE_METADATA_HOST=" + address, "HTTP_PROXY=http://" + address,
		"AWS_EC2_METADATA_SERVICE_ENDPOINT=http://" + address, "AWS_REGION=" + region,
	}
}
