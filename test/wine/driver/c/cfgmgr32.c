/* cfgmgr32.dll: CM_Reenumerate_DevNode, a stub in Wine, calls the node behind the
 * driver. */
#include "call.h"

#define CR_SUCCESS 0
#define CR_INVALID_DEVNODE 5
#define CR_INVALID_FLAG 4
#define CR_FAILURE 0x13
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
