/* fmifs.dll: FormatEx2 with the parameter block and the callback that open tools
 * use. The node behind the driver formats, and determines the events of the
 * callback and their order. */
#include "call.h"

typedef BOOLEAN(WINAPI *callback)(ULONG event, ULONG size, void *data);

/* Offsets in FMIFS_FORMATEX2_PARAM. */
#define FLAGS 4
#define LABEL 8
#define CLUSTER 16
#define PARAM_SIZE 40

__declspec(dllexport) void WINAPI FormatEx2(const WCHAR *drive, ULONG media, const WCHAR *fs, const UCHAR *param, callback report)
{
	struct packet p;
	UCHAR events[4096];
	const WCHAR *label;
	DWORD size, at = 0;

	memcpy(&label, param + LABEL, sizeof label);
	begin(&p, CALL_FORMAT);
	put_text(&p, drive);
	put_number(&p, media);
	put_text(&p, fs);
	put_bytes(&p, param, PARAM_SIZE);
	put_text(&p, label);
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
