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
	// gcepdTest is the test of the lab that runs the driver.
	gcepdTest = "^TestGCEPD$"
)

// labModule tests the lab, without the driver that has a stage of its own.
func labModule(ctx context.Context, r *report) error {
	return moduleAlone(labDir, "-skip", gcepdTest)(ctx, r)
}

// gcepd runs the unmodified driver of GCE PD under Wine.
func gcepd(ctx context.Context, r *report) error {
	_, reason, err := installWine(ctx, r)
	if err != nil {
		return err
	}
	if reason != "" {
		r.skip("the driver of GCE PD under Wine", reason)
		return nil
	}
	exe, err := buildGCEPD(ctx, r)
	if err != nil {
		return err
	}
	env := []string{"GOWORK=off", "CSI_PROXY_GCEPD_BINARY=" + exe}
	return r.goTest(ctx, labDir, env, vettedBefore, "./gcepd", "-run", gcepdTest)
}

// buildGCEPD builds the driver for Windows, as its own Makefile does, which sets its
// version. It returns the path of the program.
func buildGCEPD(ctx context.Context, r *report) (exe string, err error) {
	to, err := filepath.Abs(filepath.Join("bin", "gcepd"))
	if err != nil {
		return "", err
	}
	cache, err := exec.CommandContext(ctx, "go", "env", "GOMODCACHE").Output()
	if err != nil {
		return "", fmt.Errorf("go env: %w", err)
	}
	env := append(platform{"windows", "amd64"}.env(), "GOWORK=off", "GOBIN=", "GOPATH="+to, "GOMODCACHE="+strings.TrimSpace(string(cache)))
	install := r.command(ctx, ".", env, "go", "install", "-ldflags", "-s -w -X main.version="+gcepdVersion, gcepdProgram+"@"+gcepdVersion)
	if err := install.Run(); err != nil {
		return "", fmt.Errorf("build %s; its modules come from the module proxy: %w", gcepdProgram, err)
	}
	r.pass()
	return filepath.Join(to, "bin", "windows_amd64", path.Base(gcepdProgram)+".exe"), nil
}
