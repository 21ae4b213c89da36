/* The protocol between the driver, the program that implements the node, and the
 * DLLs. protocol.go has the same in Go; both are little-endian, and a test compares
 * the numbers. */
#ifndef FORWARD_H
#define FORWARD_H

#define FORWARD_CODE(n) (0x80000000u | 0x800u << 2 | (n) << 2) /* METHOD_BUFFERED, FILE_ANY_ACCESS */

#define FORWARD_START FORWARD_CODE(0)  /* requests go to this handle from now on */
#define FORWARD_SERVE FORWARD_CODE(1)  /* out: the next request; waits for one */
#define FORWARD_REPLY FORWARD_CODE(2)  /* in: struct reply */
#define FORWARD_STOP FORWARD_CODE(3)   /* stops serving: a waiting SERVE and all requests fail */
#define FORWARD_ADD FORWARD_CODE(4)    /* in: struct device; creates a device */
#define FORWARD_REMOVE FORWARD_CODE(5) /* in: ULONG, the device's number */
#define FORWARD_CALL FORWARD_CODE(6)   /* a call of one of our DLLs, with its input and output */

enum operation { OP_CREATE = 1, OP_CLOSE, OP_CONTROL, OP_READ, OP_WRITE, OP_FLUSH, OP_VOLUME, OP_POINTS, OP_CALL };

/* A request, followed by its input. OP_CREATE and OP_CLOSE have no reply: Wine does
 * not wait for a driver that opens a file. */
struct request {
	ULONGLONG id;
	ULONG operation;
	ULONG device;     /* the number with which it was added */
	ULONGLONG handle; /* of the open file, new with OP_CREATE */
	ULONGLONG offset; /* OP_READ, OP_WRITE */
	ULONG code;       /* control code or information class */
	ULONG share;      /* OP_CREATE */
	ULONG in, out;    /* bytes of input that follow; size of the output buffer */
};

/* A reply, followed by its output. */
struct reply {
	ULONGLONG id;
	ULONG status;     /* NTSTATUS */
	ULONG out;        /* bytes of output that follow */
};

/* A device to create: its number, and its names in the object manager as
 * NUL-terminated strings, at most four. */
struct device {
	ULONG number;
	USHORT names[1];
};

/* The function of a call from a DLL, in its first four bytes. */
enum call {
	CALL_REENUMERATE = 1,
	CALL_INTERFACES,
	CALL_FORMAT,
	CALL_ADD_PORTAL,
	CALL_PORTALS,
	CALL_REFRESH_PORTAL,
	CALL_REMOVE_PORTAL,
	CALL_TARGETS,
	CALL_TARGET_INFORMATION,
	CALL_TARGET_PORTALS,
	CALL_LOGIN,
	CALL_LOGOUT,
	CALL_SESSIONS,
	CALL_DEVICES,
	CALL_PERSISTENT,
	CALL_REMOVE_PERSISTENT,
	CALL_SECRET,
	CALL_USE_ADD,
	CALL_USES,
	CALL_USE_DEL,
};

#endif
