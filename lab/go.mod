// The lab: Windows drivers under Wine, on a simulated node. It is a module of its own,
// so that what it imports reaches neither the drivers nor the programs.
module github.com/kubernetes-csi/csi-proxy/lab

go 1.26.0

replace (
	github.com/kubernetes-csi/csi-proxy/client => ../client
	github.com/kubernetes-csi/csi-proxy/v2 => ..
)

require (
	github.com/Microsoft/go-winio v0.6.4
	github.com/container-storage-interface/spec v1.12.0
	github.com/kubernetes-csi/csi-proxy/v2 v2.0.0-00010101000000-000000000000
	google.golang.org/grpc v1.85.0
)

require (
	github.com/go-ole/go-ole v1.3.0 // indirect
	github.com/gofrs/flock v0.12.1 // indirect
	github.com/kubernetes-csi/csi-proxy/client v1.3.0 // indirect
	golang.org/x/net v0.60.0 // indirect
	golang.org/x/sync v0.23.0 // indirect
	golang.org/x/sys v0.49.0 // indirect
	golang.org/x/text v0.42.0 // indirect
	google.golang.org/genproto/googleapis/rpc v0.0.0-20260817212433-ac3dfec99bb1 // indirect
	google.golang.org/protobuf v1.36.12 // indirect
)
