package system_test

import (
	"context"
	"errors"
	"fmt"
	"log"

	"github.com/kubernetes-csi/csi-proxy/v2/pkg/hosterr"
	"github.com/kubernetes-csi/csi-proxy/v2/pkg/simnode"
	"github.com/kubernetes-csi/csi-proxy/v2/pkg/system"
)

// This example starts the service of a storage vendor if it does not run, and identifies the
// node by its serial number.
func Example() {
	ctx := context.Background()
	node, err := simnode.Open(simnode.Config{
		Services: []simnode.Service{{Name: "VendorAgent", DisplayName: "Storage Vendor Agent"}},
		Firmware: simnode.Firmware{SerialNumber: "VM-0001"},
	}) // on Windows: system.New(systemapi.New())
	if err != nil {
		log.Fatal(err)
	}
	defer node.Close()
	var windows system.Interface = node.System()

	service, err := windows.GetService(ctx, &system.GetServiceRequest{Name: "VendorAgent"})
	if err != nil {
		log.Fatal(err)
	}
	fmt.Printf("%s, stopped: %t\n", service.DisplayName, service.Status == system.SERVICE_STATUS_STOPPED)
	// Starting a running service succeeds.
	if _, err := windows.StartService(ctx, &system.StartServiceRequest{Name: "VendorAgent"}); err != nil {
		log.Fatal(err)
	}
	if service, err = windows.GetService(ctx, &system.GetServiceRequest{Name: "VendorAgent"}); err != nil {
		log.Fatal(err)
	}
	fmt.Println("running:", service.Status == system.SERVICE_STATUS_RUNNING)

	bios, err := windows.GetBIOSSerialNumber(ctx, &system.GetBIOSSerialNumberRequest{})
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(bios.SerialNumber)

	_, err = windows.StartService(ctx, &system.StartServiceRequest{Name: "Storage Vendor Agent"})
	fmt.Println("found by its display name:", !errors.Is(err, hosterr.ErrNotFound))

	// Output:
	// Storage Vendor Agent, stopped: true
	// running: true
	// VM-0001
	// found by its display name: false
}
