// Package api is the published surface of the filesystem host.
package api

type HostAPI interface {
	PathExists(path string) (bool, error)
	PathValid(path string) (bool, error)
	Mkdir(path string) error
	Rmdir(path string, force bool) error
	RmdirContents(path string) error
	CreateSymlink(oldname string, newname string) error
	IsSymlink(path string) (bool, error)
}

func New() HostAPI
