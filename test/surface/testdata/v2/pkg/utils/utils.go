// Package utils is the published surface of the helpers about paths.
package utils

const (
	MaxPathLengthWindows = 260
	LongPathPrefix       = `\\?\`
)

func EnsureLongPath(path string) string

func IsPathValid(path string) (bool, error)

func IsMountedFolder(path string) (bool, error)

func IsPathSymlink(path string) (bool, error)

func CreateSymlink(link, target string, isDir bool) error

func PathExists(path string) (bool, error)

// RunPowershellCmd is of v2.0.0-alpha.0 and alpha.1.
func RunPowershellCmd(command string, envs ...string) ([]byte, error)
