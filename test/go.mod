module github.com/kubernetes-csi/csi-proxy/v2/test

go 1.25.0

require (
	github.com/Microsoft/go-winio v0.6.2
	github.com/kubernetes-csi/csi-proxy/client v1.3.0
	github.com/kubernetes-csi/csi-proxy/v2 v2.0.0
	golang.org/x/exp v0.0.0-20250620022241-b7579e27df2b
	google.golang.org/grpc v1.84.0
	google.golang.org/protobuf v1.36.12
	sigs.k8s.io/yaml v1.6.0
)

require (
	github.com/go-ole/go-ole v1.3.0 // indirect
	go.yaml.in/yaml/v2 v2.4.2 // indirect
	golang.org/x/net v0.58.0 // indirect
	golang.org/x/text v0.41.0 // indirect
	golang.org/x/tools/go/packages/packagestest v0.1.1-deprecated // indirect
	google.golang.org/genproto/googleapis/rpc v0.0.0-20260706201446-f0a921348800 // indirect
)

require (
	github.com/gofrs/flock v0.13.1 // indirect
	golang.org/x/mod v0.38.0
	golang.org/x/sync v0.22.0 // indirect
	golang.org/x/sys v0.47.0
	golang.org/x/tools v0.48.0
)

replace (
	github.com/kubernetes-csi/csi-proxy/client => ../client
	github.com/kubernetes-csi/csi-proxy/v2 => ../
	github.com/kubernetes-csi/csi-proxy/v2/test/published/script => ./published/script
)
