// Command story makes the CSI calls of a volume's life on a node, in the order of
// Kubernetes, and prints each of them:
//
//	story -endpoint unix:///csi/csi.sock -serial vol-1
//
// The volume is on a disk that is attached to the node already, found by its serial
// number.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	"example.com/csi-driver/driver"
)

func main() { os.Exit(run(context.Background(), os.Args[1:], os.Stdout, os.Stderr)) }

func run(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	flags := flag.NewFlagSet("story", flag.ContinueOnError)
	flags.SetOutput(stderr)
	endpoint := flags.String("endpoint", "", "the driver's unix socket, such as unix:///csi/csi.sock")
	serial := flags.String("serial", "", "serial number of an attached disk")
	switch err := flags.Parse(args); {
	case errors.Is(err, flag.ErrHelp):
		return 0
	case err != nil:
		return 2
	}
	if *endpoint == "" || *serial == "" || flags.NArg() > 0 {
		fmt.Fprintln(stderr, "story: want -endpoint and -serial, and no arguments")
		return 2
	}
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	if err := volumeLife(ctx, stdout, *endpoint, *serial); err != nil {
		fmt.Fprintf(stderr, "story: %v\n", err)
		return 1
	}
	return 0
}

// volumeLife makes the calls.
func volumeLife(ctx context.Context, stdout io.Writer, endpoint, serial string) error {
	conn, err := grpc.NewClient(endpoint, grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithDefaultCallOptions(grpc.WaitForReady(true))) // the driver may still be starting
	if err != nil {
		return err
	}
	defer conn.Close()
	node := csi.NewNodeClient(conn)

	// The kubelet's paths, without a drive where the kubelet leaves it out.
	const (
		staging = `\var\lib\kubelet\plugins\kubernetes.io\csi\csi-driver.example.com\vol-1\globalmount`
		target  = `c:\var\lib\kubelet\pods\vol-1`
	)
	id := driver.DiskID(serial)
	mount := &csi.VolumeCapability{
		AccessType: &csi.VolumeCapability_Mount{Mount: &csi.VolumeCapability_MountVolume{FsType: "ntfs"}},
		AccessMode: &csi.VolumeCapability_AccessMode{Mode: csi.VolumeCapability_AccessMode_SINGLE_NODE_WRITER},
	}
	for _, step := range []struct {
		name string
		call func() (result any, err error)
	}{
		{"NodeStageVolume", func() (any, error) {
			return node.NodeStageVolume(ctx, &csi.NodeStageVolumeRequest{
				VolumeId: id, StagingTargetPath: staging, VolumeCapability: mount, PublishContext: map[string]string{driver.SerialNumber: serial},
			})
		}},
		{"NodePublishVolume", func() (any, error) {
			return node.NodePublishVolume(ctx, &csi.NodePublishVolumeRequest{VolumeId: id, StagingTargetPath: staging, TargetPath: target, VolumeCapability: mount})
		}},
		{"NodeExpandVolume", func() (any, error) {
			return node.NodeExpandVolume(ctx, &csi.NodeExpandVolumeRequest{VolumeId: id, VolumePath: target})
		}},
		{"NodeGetVolumeStats", func() (any, error) {
			out, err := node.NodeGetVolumeStats(ctx, &csi.NodeGetVolumeStatsRequest{VolumeId: id, VolumePath: target})
			if err != nil {
				return nil, err
			}
			u := out.GetUsage()[0]
			return fmt.Sprintf("%d bytes, %d available", u.GetTotal(), u.GetAvailable()), nil
		}},
		{"NodeUnpublishVolume", func() (any, error) {
			return node.NodeUnpublishVolume(ctx, &csi.NodeUnpublishVolumeRequest{VolumeId: id, TargetPath: target})
		}},
		{"NodeUnstageVolume", func() (any, error) {
			return node.NodeUnstageVolume(ctx, &csi.NodeUnstageVolumeRequest{VolumeId: id, StagingTargetPath: staging})
		}},
	} {
		out, err := step.call()
		if err != nil {
			return fmt.Errorf("%s: %w", step.name, err)
		}
		fmt.Fprintln(stdout, strings.TrimSpace(fmt.Sprintf("%s: ok %v", step.name, out)))
	}
	return nil
}
