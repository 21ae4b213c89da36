// Package api is the published surface of the iscsi host.
package api

type HostAPI interface {
	AddTargetPortal(portal *TargetPortal) error
	DiscoverTargetPortal(portal *TargetPortal) ([]string, error)
	ListTargetPortals() ([]TargetPortal, error)
	RemoveTargetPortal(portal *TargetPortal) error
	ConnectTarget(portal *TargetPortal, iqn, authType, chapUser, chapSecret string) error
	DisconnectTarget(portal *TargetPortal, iqn string) error
	GetTargetDisks(portal *TargetPortal, iqn string) ([]string, error)
	SetMutualChapSecret(mutualChapSecret string) error
}

func New() HostAPI

type TargetPortal struct {
	Address string `json:"TargetPortalAddress"`
	Port    uint32 `json:"TargetPortalPortNumber"`
}
