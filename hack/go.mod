// The tools that build, check and document this project. Nothing imports this module.
module github.com/kubernetes-csi/csi-proxy/v2/hack

go 1.26.0

replace (
	github.com/kubernetes-csi/csi-proxy/client => ../client
	github.com/kubernetes-csi/csi-proxy/v2 => ../
)

require github.com/tc-hib/winres v0.2.1

require (
	github.com/nfnt/resize v0.0.0-20180221191011-83c6a9932646 // indirect
	golang.org/x/image v0.47.0 // indirect
)
