module github.com/kubernetes-csi/csi-proxy/v2

go 1.25.0

require (
	github.com/Microsoft/go-winio v0.6.2
	github.com/go-ole/go-ole v1.3.0
	github.com/gofrs/flock v0.12.1
	github.com/kubernetes-csi/csi-proxy/client v1.3.0
	golang.org/x/net v0.58.0
	golang.org/x/sync v0.22.0
	golang.org/x/sys v0.47.0
	google.golang.org/genproto/googleapis/rpc v0.0.0-20260526163538-3dc84a4a5aaa
	google.golang.org/grpc v1.83.2
	google.golang.org/protobuf v1.36.11
)

require golang.org/x/text v0.41.0 // indirect

replace github.com/kubernetes-csi/csi-proxy/client => ./client
