/* How our DLLs call the program that implements the node: a packet of arguments
 * goes through the driver, and the results come back. */
#ifndef CALL_H
#define CALL_H

#include <windows.h>
#include <string.h>
#include "forward.h"

struct packet {
	ULONG size;
	UCHAR bytes[16384];
};

/* put_bytes adds an argument, which may be NULL; put_number and put_text are
 * shorthands. Arguments that do not fit are left out: the other side notices. */
static inline void put_bytes(struct packet *p, const void *b, ULONG size)
{
	ULONG room = sizeof p->bytes - p->size, claimed = b ? size : 0xFFFFFFFF;

	if (room < sizeof claimed + (b ? size : 0))
		return;
	memcpy(p->bytes + p->size, &claimed, sizeof claimed);
	p->size += sizeof claimed;
	if (b)
		memcpy(p->bytes + p->size, b, size), p->size += size;
}

static inline void put_number(struct packet *p, ULONG n) { put_bytes(p, &n, sizeof n); }

static inline void put_text(struct packet *p, const WCHAR *s) { put_bytes(p, s, s ? lstrlenW(s) * sizeof *s : 0); }

static inline void begin(struct packet *p, enum call what)
{
	ULONG n = what;

	p->size = sizeof n;
	memcpy(p->bytes, &n, sizeof n);
}

/* ask makes the call. It returns a Win32 error, and the size of the result. */
static inline DWORD ask(struct packet *p, void *out, DWORD room, DWORD *size)
{
	HANDLE h = CreateFileW(L"\\\\.\\CSIProxyNode", GENERIC_READ | GENERIC_WRITE, FILE_SHARE_READ | FILE_SHARE_WRITE, NULL,
			       OPEN_EXISTING, 0, NULL);
	DWORD error = 0;

	*size = 0;
	if (h == INVALID_HANDLE_VALUE)
		return GetLastError();
	if (!DeviceIoControl(h, FORWARD_CALL, p->bytes, p->size, out, room, size, NULL))
		error = GetLastError();
	CloseHandle(h);
	return error;
}

/* A result: the status, two numbers, the positions of pointers, and bytes in which
 * those pointers are offsets. */
struct answer {
	ULONG status, first, second, pointers;
	UCHAR rest[1 << 20];
};

/* finish makes the call and writes the result: to *first and *second, unless NULL,
 * and to out, of room bytes. */
static inline ULONG finish(struct packet *p, void *out, ULONG room, ULONG *first, ULONG *second)
{
	struct answer *a = HeapAlloc(GetProcessHeap(), 0, sizeof *a);
	const ULONG head = FIELD_OFFSET(struct answer, rest);
	ULONG status = ERROR_OUTOFMEMORY, i, at;
	DWORD size;

	if (!a)
		return status;
	if (!(status = ask(p, a, sizeof *a, &size))) {
		status = size < head ? ERROR_INVALID_DATA : a->status;
		if (size >= head && first)
			*first = a->first;
		if (size >= head && second)
			*second = a->second;
		at = a->pointers * sizeof(ULONG);
		if ((!status || status == ERROR_MORE_DATA) && out && size - head >= at && size - head - at <= room) {
			memcpy(out, a->rest + at, size - head - at);
			for (i = 0; i < a->pointers; i++) {
				ULONG_PTR *pointer = (ULONG_PTR *)((UCHAR *)out + ((ULONG *)a->rest)[i]);

				*pointer += (ULONG_PTR)out;
			}
		}
	}
	SecureZeroMemory(p, sizeof *p);
	HeapFree(GetProcessHeap(), 0, a);
	return status;
}

#endif
