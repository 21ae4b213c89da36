package filesystem_test

import (
	"context"
	"errors"
	"fmt"
	"log"

	"github.com/kubernetes-csi/csi-proxy/v2/pkg/filesystem"
	"github.com/kubernetes-csi/csi-proxy/v2/pkg/hosterr"
	"github.com/kubernetes-csi/csi-proxy/v2/pkg/simnode"
)

// A staged volume is published to a pod with a link. Removing the link keeps its target.
func Example() {
	ctx := context.Background()
	node, err := simnode.Open(simnode.Config{}) // on Windows: filesystem.New(filesystemapi.New())
	if err != nil {
		log.Fatal(err)
	}
	defer node.Close()
	var files filesystem.Interface = node.Filesystem()

	const staged = `C:\var\lib\kubelet\plugins\kubernetes.io\csi\vol-1\globalmount`
	const pod = `C:\var\lib\kubelet\pods\8b1c\volumes\kubernetes.io~csi\pv-1`
	for _, dir := range []string{staged, pod} {
		if _, err := files.Mkdir(ctx, &filesystem.MkdirRequest{Path: dir}); err != nil {
			log.Fatal(err)
		}
	}
	if _, err := files.CreateSymlink(ctx, &filesystem.CreateSymlinkRequest{SourcePath: staged, TargetPath: pod + `\mount`}); err != nil {
		log.Fatal(err)
	}
	link, err := files.IsSymlink(ctx, &filesystem.IsSymlinkRequest{Path: pod + `\mount`})
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println("published:", link.IsSymlink)

	if _, err := files.Rmdir(ctx, &filesystem.RmdirRequest{Path: pod, Force: true}); err != nil {
		log.Fatal(err)
	}
	for _, path := range []string{pod, staged} {
		there, err := files.PathExists(ctx, &filesystem.PathExistsRequest{Path: path})
		if err != nil {
			log.Fatal(err)
		}
		fmt.Println(path, there.Exists)
	}

	// Output:
	// published: true
	// C:\var\lib\kubelet\pods\8b1c\volumes\kubernetes.io~csi\pv-1 false
	// C:\var\lib\kubelet\plugins\kubernetes.io\csi\vol-1\globalmount true
}

// Paths are absolute Windows paths on every system.
func ExampleValidatePathWindows() {
	for _, path := range []string{`C:\var\lib\kubelet\pods`, `\var\lib\kubelet`, `\\server\share`, `C:\var\..\Windows`} {
		fmt.Println(errors.Is(filesystem.ValidatePathWindows(path), hosterr.ErrInvalid), path)
	}

	// Output:
	// false C:\var\lib\kubelet\pods
	// false \var\lib\kubelet
	// true \\server\share
	// true C:\var\..\Windows
}
