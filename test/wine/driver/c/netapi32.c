/* netapi32.dll: the NetUse functions with USE_FLAG_GLOBAL_MAPPING, which Wine has
 * as stubs. Structures have the offsets of 64-bit Windows. Other functions of this
 * DLL that Go's own packages use are missing. */
#include "call.h"

/* Offsets in USE_INFO_2 and USE_INFO_3. */
#define LOCAL 0
#define REMOTE 8
#define PASSWORD 16
#define USER 40
#define DOMAIN 48
#define FLAGS 56

#define GLOBAL_MAPPING 0x10000
#define ROOM 65536

static const WCHAR *text_at(const UCHAR *info, ULONG at)
{
	const WCHAR *s;

	memcpy(&s, info + at, sizeof s);
	return s;
}

__declspec(dllexport) DWORD WINAPI NetUseAdd(WCHAR *server, DWORD level, UCHAR *info, DWORD *parameter)
{
	struct packet p;
	ULONG flags;

	if (server || !info)
		return ERROR_INVALID_PARAMETER;
	if (level != (3 | GLOBAL_MAPPING))
		return ERROR_INVALID_LEVEL;
	*parameter = 0;
	memcpy(&flags, info + FLAGS, sizeof flags);
	begin(&p, CALL_USE_ADD);
	put_text(&p, text_at(info, LOCAL));
	put_text(&p, text_at(info, REMOTE));
	put_text(&p, text_at(info, PASSWORD));
	put_text(&p, text_at(info, USER));
	put_text(&p, text_at(info, DOMAIN));
	put_number(&p, flags);
	return finish(&p, NULL, 0, NULL, NULL);
}

__declspec(dllexport) DWORD WINAPI NetUseEnum(WCHAR *server, DWORD level, UCHAR **buffer, DWORD preferred, DWORD *read, DWORD *total, DWORD *resume)
{
	struct packet p;
	ULONG status;

	*buffer = NULL;
	*read = *total = 0;
	if (server || preferred != 0xFFFFFFFF)
		return ERROR_INVALID_PARAMETER;
	if ((level & ~GLOBAL_MAPPING) != 2)
		return ERROR_INVALID_LEVEL;
	if (!(*buffer = HeapAlloc(GetProcessHeap(), 0, ROOM)))
		return ERROR_OUTOFMEMORY;
	begin(&p, CALL_USES);
	put_number(&p, (level & GLOBAL_MAPPING) != 0);
	put_number(&p, *resume);
	status = finish(&p, *buffer, ROOM, read, total);
	*resume += *read;
	return status;
}

__declspec(dllexport) DWORD WINAPI NetUseDel(WCHAR *server, WCHAR *name, DWORD force)
{
	struct packet p;

	if (server)
		return ERROR_INVALID_PARAMETER;
	begin(&p, CALL_USE_DEL);
	put_text(&p, name);
	put_number(&p, (force & GLOBAL_MAPPING) != 0);
	put_number(&p, force & ~GLOBAL_MAPPING);
	return finish(&p, NULL, 0, NULL, NULL);
}

__declspec(dllexport) DWORD WINAPI NetApiBufferFree(void *buffer)
{
	return !buffer || HeapFree(GetProcessHeap(), 0, buffer) ? 0 : ERROR_INVALID_PARAMETER;
}

__declspec(dllexport) DWORD WINAPI NetUserGetInfo(WCHAR *server, WCHAR *user, DWORD level, UCHAR **buffer)
{
	(void)server, (void)user, (void)level;
	*buffer = NULL;
	return ERROR_NOT_SUPPORTED;
}

__declspec(dllexport) DWORD WINAPI NetGetJoinInformation(WCHAR *server, WCHAR **name, DWORD *kind)
{
	(void)server;
	*name = NULL;
	*kind = 0;
	return ERROR_NOT_SUPPORTED;
}
