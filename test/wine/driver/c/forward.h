/* What passes between the driver, the program that answers for it and the DLLs
 * beside it. protocol.go says the same in Go; both are little-endian, and a test
 * compares the numbers. */
#ifndef FORWARD_H
#define FORWARD_H

#define FORWARD_CODE(n) (0x80000000u | 0x800u << 2 | (n) << 2) /* METHOD_BUFFERED, FILE_ANY_ACCESS */

#define FORWARD_START FORWARD_CODE(0)  /* requests go to this handle from now on */
#define FORWARD_SERVE FORWARD_CODE(1)  /* out: the next request, once there is one */
#define FORWARD_REPLY FORWARD_CODE(2)  /* in: struct reply */
#define FORWARD_STOP FORWARD_CODE(3)   /* ends the serving: a waiting SERVE and all requests fail */
#define FORWARD_ADD FORWARD_CODE(4)    /* in: struct device; makes a device */
#define FORWARD_REMOVE FORWARD_CODE(5) /* in: ULONG, the device's number */
#define FORWARD_CALL FORWARD_CODE(6)   /* a call of one of our DLLs: in and out are its own */

enum operation { OP_CREATE = 1, OP_CLOSE, OP_CONTROL, OP_READ, OP_WRITE, OP_FLUSH, OP_VOLUME, OP_POINTS, OP_CALL };

/* A request, which its input follows. OP_CREATE and OP_CLOSE are told and want no
 * reply: Wine does not wait for a driver that opens a file. */
struct request {
	ULONGLONG id;
	ULONG operation;
	ULONG device;     /* by which number it was added */
	ULONGLONG handle; /* of the open file, new with OP_CREATE */
	ULONGLONG offset; /* OP_READ, OP_WRITE */
	ULONG code;       /* control code or information class */
	ULONG share;      /* OP_CREATE */
	ULONG in, out;    /* bytes of input that follow; room for output */
};

/* A reply, which its output follows. */
struct reply {
	ULONGLONG id;
	ULONG status;     /* NTSTATUS */
	ULONG out;        /* bytes of output that follow */
};

/* A device to make: its number, and its names in the object manager as
 * NUL-terminated strings, at most four. */
struct device {
	ULONG number;
	USHORT names[1];
};

/* What the DLLs ask for, in the first four bytes of a call. */
enum call {
	CALL_REENUMERATE = 1,
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
