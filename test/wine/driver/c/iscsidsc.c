/* iscsidsc.dll: the functions of Microsoft's iSCSI initiator that CSI Proxy calls.
 * They pass their arguments on and write the results to the caller's buffers.
 * Structures are bytes here, because mingw-w64's header is wrong. */
#include "call.h"

/* Sizes of structures. */
#define PORTAL 1026      /* ISCSI_TARGET_PORTALW */
#define PORTAL_INFO 1544 /* ISCSI_TARGET_PORTAL_INFOW */
#define DEVICE 2040      /* ISCSI_DEVICE_ON_SESSIONW */
#define SESSION_ID 16    /* ISCSI_UNIQUE_SESSION_ID */
#define OPTIONS 64       /* ISCSI_LOGIN_OPTIONS */

/* Offsets in ISCSI_LOGIN_OPTIONS. */
#define USERNAME_LENGTH 36
#define PASSWORD_LENGTH 40
#define USERNAME 48
#define PASSWORD 56

static void put_options(struct packet *p, const UCHAR *options)
{
	const void *text;
	ULONG size;

	put_bytes(p, options, OPTIONS);
	if (!options)
		return;
	memcpy(&size, options + USERNAME_LENGTH, sizeof size);
	memcpy(&text, options + USERNAME, sizeof text);
	put_bytes(p, text, size);
	memcpy(&size, options + PASSWORD_LENGTH, sizeof size);
	memcpy(&text, options + PASSWORD, sizeof text);
	put_bytes(p, text, size);
}

static ULONG of_portal(enum call what, const WCHAR *instance, ULONG port, const void *portal)
{
	struct packet p;

	begin(&p, what);
	put_text(&p, instance);
	put_number(&p, port);
	put_bytes(&p, portal, PORTAL);
	return finish(&p, NULL, 0, NULL, NULL);
}

#define EXPORT __declspec(dllexport) ULONG WINAPI

EXPORT AddIScsiSendTargetPortalW(WCHAR *instance, ULONG port, void *options, ULONGLONG security, void *portal)
{
	return options || security ? ERROR_INVALID_PARAMETER : of_portal(CALL_ADD_PORTAL, instance, port, portal);
}

EXPORT RefreshIScsiSendTargetPortalW(WCHAR *instance, ULONG port, void *portal)
{
	return of_portal(CALL_REFRESH_PORTAL, instance, port, portal);
}

EXPORT RemoveIScsiSendTargetPortalW(WCHAR *instance, ULONG port, void *portal)
{
	return of_portal(CALL_REMOVE_PORTAL, instance, port, portal);
}

EXPORT ReportIScsiSendTargetPortalsW(ULONG *count, void *portals)
{
	struct packet p;

	begin(&p, CALL_PORTALS);
	put_number(&p, *count);
	return finish(&p, portals, *count * PORTAL_INFO, count, NULL);
}

EXPORT ReportIScsiTargetsW(BOOLEAN force, ULONG *units, WCHAR *targets)
{
	struct packet p;

	begin(&p, CALL_TARGETS);
	put_number(&p, force);
	put_number(&p, *units);
	return finish(&p, targets, *units * sizeof *targets, units, NULL);
}

EXPORT GetIScsiTargetInformationW(WCHAR *target, WCHAR *mechanism, ULONG class, ULONG *size, void *information)
{
	struct packet p;

	begin(&p, CALL_TARGET_INFORMATION);
	put_text(&p, target);
	put_text(&p, mechanism);
	put_number(&p, class);
	put_number(&p, *size);
	return finish(&p, information, *size, size, NULL);
}

EXPORT ReportIScsiTargetPortalsW(WCHAR *instance, WCHAR *target, USHORT *tag, ULONG *count, void *portals)
{
	struct packet p;

	if (instance || tag)
		return ERROR_INVALID_PARAMETER;
	begin(&p, CALL_TARGET_PORTALS);
	put_text(&p, target);
	put_number(&p, *count);
	return finish(&p, portals, *count * PORTAL, count, NULL);
}

EXPORT LoginIScsiTargetW(WCHAR *target, BOOLEAN informational, WCHAR *instance, ULONG port, void *portal, ULONGLONG security,
			 void *mappings, UCHAR *options, ULONG key_size, char *key, BOOLEAN persistent, void *session, void *connection)
{
	UCHAR ids[2 * SESSION_ID] = {0};
	struct packet p;
	ULONG status;

	if (security || mappings || key_size || key || !session || !connection)
		return ERROR_INVALID_PARAMETER;
	begin(&p, CALL_LOGIN);
	put_text(&p, target);
	put_number(&p, informational);
	put_text(&p, instance);
	put_number(&p, port);
	put_bytes(&p, portal, PORTAL);
	put_number(&p, persistent);
	put_options(&p, options);
	if (!(status = finish(&p, ids, sizeof ids, NULL, NULL))) {
		memcpy(session, ids, SESSION_ID);
		memcpy(connection, ids + SESSION_ID, SESSION_ID);
	}
	return status;
}

EXPORT LogoutIScsiTarget(void *session)
{
	struct packet p;

	begin(&p, CALL_LOGOUT);
	put_bytes(&p, session, SESSION_ID);
	return finish(&p, NULL, 0, NULL, NULL);
}

EXPORT GetIScsiSessionListW(ULONG *size, ULONG *count, void *sessions)
{
	struct packet p;

	begin(&p, CALL_SESSIONS);
	put_number(&p, *size);
	return finish(&p, sessions, *size, size, count);
}

EXPORT GetDevicesForIScsiSessionW(void *session, ULONG *count, void *devices)
{
	struct packet p;

	begin(&p, CALL_DEVICES);
	put_bytes(&p, session, SESSION_ID);
	put_number(&p, *count);
	return finish(&p, devices, *count * DEVICE, count, NULL);
}

EXPORT ReportIScsiPersistentLoginsW(ULONG *count, void *logins, ULONG *size)
{
	struct packet p;

	begin(&p, CALL_PERSISTENT);
	put_number(&p, *size);
	return finish(&p, logins, *size, size, count);
}

EXPORT RemoveIScsiPersistentTargetW(WCHAR *instance, ULONG port, WCHAR *target, void *portal)
{
	struct packet p;

	begin(&p, CALL_REMOVE_PERSISTENT);
	put_text(&p, instance);
	put_number(&p, port);
	put_text(&p, target);
	put_bytes(&p, portal, PORTAL);
	return finish(&p, NULL, 0, NULL, NULL);
}

EXPORT SetIScsiInitiatorCHAPSharedSecret(ULONG size, UCHAR *secret)
{
	struct packet p;

	begin(&p, CALL_SECRET);
	put_bytes(&p, secret, size);
	return finish(&p, NULL, 0, NULL, NULL);
}
