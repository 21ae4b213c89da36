package main

import (
	"encoding/json"
	"io"
	"os"
)

// volDataSize is the most that is read from a file of the kubelet, which has a few names.
const volDataSize = 64 << 10

// volumeHandle returns the volume handle that the kubelet notes in a directory of a pod's
// volume, or "". It reads the file itself, because csi-proxyctl runs on the node, and does
// not follow links out of the directory.
func volumeHandle(dir string) string {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return ""
	}
	defer root.Close()
	f, err := root.Open("vol_data.json")
	if err != nil {
		return ""
	}
	defer f.Close()
	text, err := io.ReadAll(io.LimitReader(f, volDataSize))
	var data struct {
		VolumeHandle string `json:"volumeHandle"`
	}
	if err != nil || json.Unmarshal(text, &data) != nil {
		return ""
	}
	return data.VolumeHandle
}
