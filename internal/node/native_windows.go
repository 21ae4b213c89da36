package node

import winapi "github.com/kubernetes-csi/csi-proxy/v2/internal/win32/native"

func openNative(o NativeOptions) (*Node, error) { return New(winapi.New(o)), nil }
