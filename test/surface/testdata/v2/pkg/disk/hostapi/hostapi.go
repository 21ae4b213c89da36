// Package api is the published surface of the disk host.
package api

type HostAPI interface {
	ListDiskLocations() (map[uint32]DiskLocation, error)
	IsDiskInitialized(diskNumber uint32) (bool, error)
	InitializeDisk(diskNumber uint32) error
	BasicPartitionsExist(diskNumber uint32) (bool, error)
	CreateBasicPartition(diskNumber uint32) error
	Rescan() error
	ListDiskIDs() (map[uint32]DiskIDs, error)
	GetDiskStats(diskNumber uint32) (int64, error)
	SetDiskState(diskNumber uint32, isOnline bool) error
	GetDiskState(diskNumber uint32) (bool, error)
	SetDiskReadOnly(diskNumber uint32, isReadOnly bool) error
	GetDiskReadOnly(diskNumber uint32) (bool, error)
}

type DiskAPI struct{}

var _ HostAPI = &DiskAPI{}

func New() DiskAPI

func (DiskAPI) ListDiskLocations() (map[uint32]DiskLocation, error)

func (DiskAPI) IsDiskInitialized(diskNumber uint32) (bool, error)

func (DiskAPI) InitializeDisk(diskNumber uint32) error

func (DiskAPI) BasicPartitionsExist(diskNumber uint32) (bool, error)

func (DiskAPI) CreateBasicPartition(diskNumber uint32) error

func (DiskAPI) Rescan() error

func (DiskAPI) ListDiskIDs() (map[uint32]DiskIDs, error)

func (DiskAPI) GetDiskStats(diskNumber uint32) (int64, error)

func (DiskAPI) SetDiskState(diskNumber uint32, isOnline bool) error

func (DiskAPI) GetDiskState(diskNumber uint32) (bool, error)

func (DiskAPI) SetDiskReadOnly(diskNumber uint32, isReadOnly bool) error

func (DiskAPI) GetDiskReadOnly(diskNumber uint32) (bool, error)

func (DiskAPI) GetDiskNumberWithID(page83ID string) (uint32, error)

func (DiskAPI) GetDiskNumberAndPage83ID(path string) (uint32, string, error)

type DiskLocation struct {
	Adapter string
	Bus     string
	Target  string
	LUNID   string
}

type DiskIDs struct {
	Page83       string
	SerialNumber string
}
