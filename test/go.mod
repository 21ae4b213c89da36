// Tests of several packages, apart so that drivers do not inherit what they require.
module github.com/kubernetes-csi/csi-proxy/v2/test

go 1.26.0

require (
	github.com/anishathalye/porcupine v1.3.1
	github.com/kubernetes-csi/csi-proxy/client v1.3.0
	github.com/kubernetes-csi/csi-proxy/v2 v2.0.0
	golang.org/x/exp v0.0.0-20250620022241-b7579e27df2b
	google.golang.org/grpc v1.85.0
	google.golang.org/protobuf v1.36.12
	sigs.k8s.io/yaml v1.6.0
)

require (
	github.com/Microsoft/go-winio v0.6.4 // indirect
	github.com/go-ole/go-ole v1.3.0 // indirect
	go.yaml.in/yaml/v2 v2.4.4 // indirect
	golang.org/x/net v0.62.0 // indirect
	golang.org/x/text v0.43.0 // indirect
	golang.org/x/tools/go/packages/packagestest v0.1.1-deprecated // indirect
	google.golang.org/genproto/googleapis/rpc v0.0.0-20260817212433-ac3dfec99bb1 // indirect
)

require (
	github.com/gofrs/flock v0.13.1 // indirect
	golang.org/x/mod v0.42.0 // indirect
	golang.org/x/sync v0.24.0 // indirect
	golang.org/x/sys v0.49.0
	golang.org/x/tools v0.52.0
)

replace (
	github.com/kubernetes-csi/csi-proxy/client => ../client
	github.com/kubernetes-csi/csi-proxy/v2 => ../
)
