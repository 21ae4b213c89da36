// What the modules of the published clients share. It links nothing but the
// standard library, so that it adds nothing to their build lists.
module github.com/kubernetes-csi/csi-proxy/v2/test/published/script

go 1.25.0
