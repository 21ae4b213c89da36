package main

import (
	"context"
	"fmt"
	"os/exec"
	"path"
	"path/filepath"
	"strings"
)

// The driver is built from its own module, with the versions that it requires.
const (
	gcepdVersion = "v1.28.1"
	gcepdProgram = "sigs.k8s.io/gcp-compute-persistent-disk-csi-driver/cmd/gce-pd-csi-driver"
)

// labTests tests packages of the lab. With Wine, the driver is built for lab/gcepd, which runs it.
// args are flags of go test, without -parallel, which ginkgo refuses, and then the packages.
func labTests(args ...string) func(context.Context, *report) error {
	return func(ctx context.Context, r *report) error {
		_, reason, err := installWine(ctx, r)
		if err != nil {
			return err
		}
		env := []string{"GOWORK=off"}
		if reason == "" {
			exe, err := buildGCEPD(ctx, r)
			if err != nil {
				return err
			}
			env = append(env, "CSI_PROXY_GCEPD_BINARY="+exe)
		}
		return r.goTest(ctx, labDir, env, args...)
	}
}

// buildGCEPD builds the driver for Windows as docs/drivers/lab.md does, so that its test finds it
// built. The version is that of the driver's Makefile. It returns the path of the program.
func buildGCEPD(ctx context.Context, r *report) (exe string, err error) {
	gopath, err := exec.CommandContext(ctx, "go", "env", "GOPATH").Output()
	if err != nil {
		return "", fmt.Errorf("go env: %w", err)
	}
	env := append(platform{"windows", "amd64"}.env(), "GOWORK=off", "GOBIN=")
	install := r.command(ctx, ".", env, "go", "install", "-ldflags", "-X main.version="+gcepdVersion, gcepdProgram+"@"+gcepdVersion)
	if err := install.Run(); err != nil {
		return "", fmt.Errorf("build %s; its modules come from the module proxy: %w", gcepdProgram, err)
	}
	r.pass()
	return filepath.Join(strings.TrimSpace(string(gopath)), "bin", "windows_amd64", path.Base(gcepdProgram)+".exe"), nil
}
