package native

import (
	"errors"
	"unsafe"

	"golang.org/x/sys/windows"

	"github.com/kubernetes-csi/csi-proxy/v2/internal/win32"
)

// https://learn.microsoft.com/windows/win32/api/setupapi/nf-setupapi-setupdigetclassdevsw
//sys	setupDiGetClassDevs(class *guid, enumerator *uint16, parent uintptr, flags uint32) (set windows.DevInfo, err error) [failretval==windows.DevInfo(windows.InvalidHandle)] = setupapi.SetupDiGetClassDevsW?

// https://learn.microsoft.com/windows/win32/api/setupapi/nf-setupapi-setupdienumdeviceinterfaces
//sys	setupDiEnumDeviceInterfaces(set windows.DevInfo, device uintptr, class *guid, index uint32, data *interfaceData) (err error) = setupapi.SetupDiEnumDeviceInterfaces?

// https://learn.microsoft.com/windows/win32/api/setupapi/nf-setupapi-setupdigetdeviceinterfacedetailw
//sys	setupDiGetDeviceInterfaceDetail(set windows.DevInfo, data *interfaceData, detail *uint32, size uint32, required *uint32, device uintptr) (err error) = setupapi.SetupDiGetDeviceInterfaceDetailW?

// https://learn.microsoft.com/windows/win32/api/cfgmgr32/nf-cfgmgr32-cm_locate_devnodew
//sys	cmLocateDevNode(node *uint32, id *uint16, flags uint32) (cr uint32) = cfgmgr32.CM_Locate_DevNodeW

// https://learn.microsoft.com/windows/win32/api/cfgmgr32/nf-cfgmgr32-cm_reenumerate_devnode
//sys	cmReenumerateDevNode(node uint32, flags uint32) (cr uint32) = cfgmgr32.CM_Reenumerate_DevNode

// Interfaces is CM_Get_Device_Interface_ListW, which returns all paths at once. Where it fails,
// as in Wine, where it is a stub, Interfaces lists the set of SetupDiGetClassDevsW, which takes
// three calls for each.
// https://learn.microsoft.com/windows/win32/api/cfgmgr32/nf-cfgmgr32-cm_get_device_interface_listw
func (a *API) Interfaces() ([]win32.Interface, error) {
	of := windows.GUID(win32.GUID_DEVINTERFACE_DISK)
	paths, err := windows.CM_Get_Device_Interface_List("", &of, windows.CM_GET_DEVICE_INTERFACE_LIST_PRESENT)
	if err != nil { // of which x/sys prints no text without a function that Wine lacks
		return deviceSet(win32.GUID_DEVINTERFACE_DISK)
	}
	var found []win32.Interface
	for _, p := range paths {
		found = append(found, win32.Interface{Path: p})
	}
	return found, nil
}

func deviceSet(class win32.GUID) ([]win32.Interface, error) {
	set, err := setupDiGetClassDevs(&class, nil, 0, uint32(windows.DIGCF_PRESENT|windows.DIGCF_DEVICEINTERFACE))
	if err != nil {
		return nil, errorOf(err)
	}
	defer windows.SetupDiDestroyDeviceInfoList(set)

	var found []win32.Interface
	for i := uint32(0); ; i++ {
		data := interfaceData{size: uint32(unsafe.Sizeof(interfaceData{}))}
		err := setupDiEnumDeviceInterfaces(set, 0, &class, i, &data)
		if is(err, windows.ERROR_NO_MORE_ITEMS) {
			return found, nil
		}
		if err != nil {
			return nil, errorOf(err)
		}
		path, err := interfacePath(set, &data)
		if err != nil {
			return nil, errorOf(err)
		}
		found = append(found, win32.Interface{Path: path})
	}
}

func interfacePath(set windows.DevInfo, data *interfaceData) (string, error) {
	var required uint32
	err := setupDiGetDeviceInterfaceDetail(set, data, nil, 0, &required, 0)
	if err != nil && !is(err, windows.ERROR_INSUFFICIENT_BUFFER) {
		return "", err
	}
	detail := make([]uint32, (max(required, interfaceDetailSize)+3)/4) // aligned as the structure is
	detail[0] = interfaceDetailSize
	size := uint32(len(detail) * 4)
	if err := setupDiGetDeviceInterfaceDetail(set, data, &detail[0], size, nil, 0); err != nil {
		return "", err
	}
	units := unsafe.Slice((*uint16)(unsafe.Pointer(&detail[0])), len(detail)*2)
	return terminated(units[interfaceDetailPath/2:]), nil
}

// Reenumerate needs SeLoadDriverPrivilege, which LocalSystem and administrators
// have.
func (a *API) Reenumerate() error {
	const reenumerateSynchronous = 1 // CM_REENUMERATE_SYNCHRONOUS
	var root uint32
	if err := errors.Join(found(procCM_Locate_DevNodeW), found(procCM_Reenumerate_DevNode)); err != nil {
		return err
	}
	if err := configError("CM_Locate_DevNodeW", cmLocateDevNode(&root, nil, 0)); err != nil {
		return err
	}
	return configError("CM_Reenumerate_DevNode", cmReenumerateDevNode(root, reenumerateSynchronous))
}
