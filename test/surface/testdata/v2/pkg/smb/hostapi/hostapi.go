// Package api is the published surface of the smb host.
package api

type HostAPI interface {
	IsSMBMapped(remotePath string) (bool, error)
	NewSMBLink(remotePath, localPath string) error
	NewSMBGlobalMapping(remotePath, username, password string) error
	RemoveSMBGlobalMapping(remotePath string) error
}

func New() HostAPI
