// Package joined asks the kubelet's code, built for Windows, which paths it makes of a hostPath and
// a subPath, and Windows which of them lead to a pipe. It runs under Wine.
package joined
