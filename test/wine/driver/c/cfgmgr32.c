/* cfgmgr32.dll: CM_Reenumerate_DevNode and CM_Get_Device_Interface_List, stubs in Wine, call
 * the node behind the driver. */
#include "call.h"

#define CR_SUCCESS 0
#define CR_INVALID_DEVNODE 5
#define CR_INVALID_FLAG 4
#define CR_FAILURE 0x13
#define CR_BUFFER_SMALL 0x1A
#define CR_ACCESS_DENIED 0x33
#define ROOT 1
#define CM_REENUMERATE_SYNCHRONOUS 1

__declspec(dllexport) DWORD WINAPI CM_Locate_DevNodeW(DWORD *node, WCHAR *id, ULONG flags)
{
	if (id || flags)
		return CR_INVALID_FLAG; /* only the root exists */
	*node = ROOT;
	return CR_SUCCESS;
}

__declspec(dllexport) DWORD WINAPI CM_Reenumerate_DevNode(DWORD node, ULONG flags)
{
	struct packet p;
	DWORD size;

	if (node != ROOT)
		return CR_INVALID_DEVNODE;
	if (flags != CM_REENUMERATE_SYNCHRONOUS)
		return CR_INVALID_FLAG;
	begin(&p, CALL_REENUMERATE);
	switch (ask(&p, NULL, 0, &size)) {
	case 0:
		return CR_SUCCESS;
	case ERROR_ACCESS_DENIED:
		return CR_ACCESS_DENIED;
	}
	return CR_FAILURE;
}

/* list returns the paths of a class as strings that end with NUL, and one NUL more, and how many
 * units they have. */
static DWORD list(const GUID *class, WCHAR *out, ULONG room, ULONG *units)
{
	struct packet p;
	DWORD size, error;

	begin(&p, CALL_INTERFACES);
	put_bytes(&p, class, sizeof *class);
	error = ask(&p, out, room * sizeof *out, &size);
	*units = size / sizeof *out;
	return error;
}

#define ROOM 32768
static WCHAR paths[ROOM]; /* each call overwrites it with the same or newer paths */

__declspec(dllexport) DWORD WINAPI CM_Get_Device_Interface_List_SizeW(ULONG *units, GUID *class, WCHAR *device, ULONG flags)
{
	if (flags || (device && *device))
		return CR_INVALID_FLAG; /* only present interfaces of all devices */
	return list(class, paths, ROOM, units) ? CR_FAILURE : CR_SUCCESS;
}

__declspec(dllexport) DWORD WINAPI CM_Get_Device_Interface_ListW(GUID *class, WCHAR *device, WCHAR *out, ULONG room, ULONG flags)
{
	ULONG units;

	if (flags || (device && *device))
		return CR_INVALID_FLAG;
	switch (list(class, out, room, &units)) {
	case 0:
		return CR_SUCCESS;
	case ERROR_INSUFFICIENT_BUFFER:
		return CR_BUFFER_SMALL;
	}
	return CR_FAILURE;
}
