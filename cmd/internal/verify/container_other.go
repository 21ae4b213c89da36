//go:build !windows

package verify

import (
	"context"
	"io"

	"github.com/kubernetes-csi/csi-proxy/v2/internal/node"
)

func containerHost(context.Context, string, []string, io.Writer) error { return node.ErrNoWindows }
func container(context.Context, string, []string, io.Writer) error     { return node.ErrNoWindows }
func containerStop(context.Context, string, []string, io.Writer) error { return node.ErrNoWindows }
