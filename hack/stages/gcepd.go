package main

import (
	"context"
	"errors"
	"fmt"
	"os/exec"
	"path/filepath"
	"strings"
)

const (
	// gcepdDir is a module outside of the workspace, which only requires a driver.
	gcepdDir = "test/gcepd"
	// gcepdTest is the test of the lab that runs the driver.
	gcepdTest = "^TestGCEPD$"

	gcepdModule  = "sigs.k8s.io/gcp-compute-persistent-disk-csi-driver"
	gcepdProgram = gcepdModule + "/cmd/gce-pd-csi-driver"
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
	if err := r.command(ctx, ".", nil, "make", "build-host").Run(); err != nil {
		return fmt.Errorf("make build-host: %w", err)
	}
	proxy, err := filepath.Abs(filepath.Join("bin", "csi-proxy-sim"))
	if err != nil {
		return err
	}
	env := []string{"GOWORK=off", "CSI_PROXY_GCEPD_BINARY=" + exe, "CSI_PROXY_SIM_BINARY=" + proxy}
	return r.goTest(ctx, labDir, env, vettedBefore, "./gcepd", "-run", gcepdTest)
}

// buildGCEPD builds the driver for Windows, as its own Makefile does, which sets its
// version. It returns the path of the program.
func buildGCEPD(ctx context.Context, r *report) (exe string, err error) {
	if exe, err = filepath.Abs(filepath.Join("bin", "gcepd", "gce-pd-csi-driver.exe")); err != nil {
		return "", err
	}
	list := exec.CommandContext(ctx, "go", "list", "-m", "-f", "{{.Version}}", gcepdModule)
	list.Dir, list.Env = gcepdDir, append(list.Environ(), "GOWORK=off")
	version, err := list.Output()
	if err != nil {
		return "", fmt.Errorf("go list -m %s: %w", gcepdModule, err)
	}
	env := append(platform{"windows", "amd64"}.env(), "GOWORK=off")
	build := r.command(ctx, gcepdDir, env, "go", "build", "-ldflags", "-s -w -X main.version="+strings.TrimSpace(string(version)), "-o", exe, gcepdProgram)
	if err := errors.Join(build.Run(), r.tidy(ctx, gcepdDir, "go.mod")); err != nil {
		return "", fmt.Errorf("build %s; its modules come from the module proxy: %w", gcepdProgram, err)
	}
	r.pass()
	return exe, nil
}
