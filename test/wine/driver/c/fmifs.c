/* fmifs.dll: FormatEx with the callback that open tools use. The node behind the
 * driver formats, and determines the events of the callback and their order. */
#include "call.h"

typedef BOOLEAN(WINAPI *callback)(ULONG event, ULONG size, void *data);

__declspec(dllexport) void WINAPI FormatEx(const WCHAR *drive, ULONG media, const WCHAR *fs, const WCHAR *label, BOOLEAN quick, ULONG cluster, callback report)
{
	struct packet p;
	UCHAR events[4096];
	DWORD size, at = 0;

	begin(&p, CALL_FORMAT);
	put_text(&p, drive);
	put_number(&p, media);
	put_text(&p, fs);
	put_text(&p, label);
	put_number(&p, quick);
	put_number(&p, cluster);
	if (ask(&p, events, sizeof events, &size))
		return; /* without an event, like a process that ends */
	while (size - at >= 8) {
		ULONG event[2];

		memcpy(event, events + at, sizeof event);
		at += sizeof event;
		if (event[1] > size - at)
			return;
		if (!report(event[0], event[1], event[1] ? events + at : NULL))
			return; /* FALSE ends the format */
		at += event[1];
	}
}
