package node

import winapi "github.com/kubernetes-csi/csi-proxy/v2/internal/win32/native"

func openNative() (*Node, error) { return New(winapi.New()), nil }
