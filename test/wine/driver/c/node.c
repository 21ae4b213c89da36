/* node.sys: disks, volumes and the mount manager of a node that is implemented by
 * another program.
 *
 * Everything sent to its devices becomes a request, which waits until the program
 * (server.go) has fetched it and sent a reply. So this file has no model of a disk,
 * and knows no control codes but those of forward.h. It is built with mingw-w64 for
 * Wine, which does not pass the access of an open to a driver. Not for Windows. */
#include <ntifs.h>
#include <ntddk.h>
#include "forward.h"

#define CONTROL_DEVICE L"\\Device\\CSIProxyNode"
#define CONTROL_LINK L"\\??\\CSIProxyNode"
#define POINTS_DEVICE L"\\Device\\CSIProxyMountPoints"
#define POINTS_LINK L"\\??\\MountPointManager"
#define POINTS_REAL L"\\Device\\MountPointManager"
#define QUERY_POINTS 0x6D0008 /* IOCTL_MOUNTMGR_QUERY_POINTS */

#define LINKS 4
#define TAG 0x65646f6e

/* The extension of our devices. */
struct extension {
	ULONG number;
	DEVICE_OBJECT *device;
	LIST_ENTRY entry;
	UNICODE_STRING links[LINKS];
	ULONG count;
	LONG opens;
	BOOLEAN removed;
};

/* A request that waits for the server or, once fetched, for its reply. */
struct waiting {
	LIST_ENTRY entry;
	IRP *irp; /* NULL: no reply is expected */
	BOOLEAN fetched;
	struct request request; /* the input follows */
};

static DEVICE_OBJECT *control, *points;
static HANDLE real_points;
static LIST_ENTRY devices, requests;
static ULONGLONG last_id, last_file;
static IRP *serving;         /* the SERVE that waits for a request */
static FILE_OBJECT *server;  /* the handle that serves */
static ULONG last_device;

/* The compiler needs these two. */
void *memcpy(void *to, const void *from, size_t n)
{
	volatile UCHAR *t = to;
	const UCHAR *f = from;
	while (n--)
		*t++ = *f++;
	return to;
}

void *memset(void *to, int c, size_t n)
{
	volatile UCHAR *t = to;
	while (n--)
		*t++ = (UCHAR)c;
	return to;
}

static NTSTATUS complete(IRP *irp, NTSTATUS status, ULONG_PTR information)
{
	irp->IoStatus.Status = status;
	irp->IoStatus.Information = information;
	IoCompleteRequest(irp, IO_NO_INCREMENT);
	return status;
}

/* hand passes the oldest unfetched request to a waiting server. */
static void hand(void)
{
	LIST_ENTRY *e;

	for (e = requests.Flink; serving && e != &requests; e = e->Flink) {
		struct waiting *w = CONTAINING_RECORD(e, struct waiting, entry);
		ULONG size = sizeof w->request + w->request.in;
		IO_STACK_LOCATION *sp;
		IRP *irp;

		if (w->fetched)
			continue;
		sp = IoGetCurrentIrpStackLocation(serving);
		if (size > sp->Parameters.DeviceIoControl.OutputBufferLength) {
			e = e->Blink;
			RemoveEntryList(&w->entry);
			if (w->irp)
				complete(w->irp, STATUS_INSUFFICIENT_RESOURCES, 0);
			ExFreePoolWithTag(w, TAG);
			continue;
		}
		irp = serving;
		serving = NULL;
		memcpy(irp->AssociatedIrp.SystemBuffer, &w->request, size);
		w->fetched = TRUE;
		if (!w->irp) {
			RemoveEntryList(&w->entry);
			ExFreePoolWithTag(w, TAG);
		}
		complete(irp, STATUS_SUCCESS, size);
		return;
	}
}

/* forward makes an IRP a request. The IRP stays pending until the reply. With wait
 * FALSE there is no reply, and the caller completes the IRP. */
static NTSTATUS forward(IRP *irp, BOOLEAN wait, struct request *request, const void *in)
{
	struct waiting *w;

	if (!server)
		return STATUS_NO_SUCH_DEVICE;
	if (!(w = ExAllocatePoolWithTag(NonPagedPool, sizeof *w + request->in, TAG)))
		return STATUS_NO_MEMORY;
	request->id = ++last_id;
	w->request = *request;
	memcpy(&w->request + 1, in, request->in);
	w->irp = wait ? irp : NULL;
	w->fetched = FALSE;
	if (wait)
		IoMarkIrpPending(irp);
	InsertTailList(&requests, &w->entry);
	hand();
	return wait ? STATUS_PENDING : STATUS_SUCCESS;
}

/* replied completes the IRP of a reply. */
static NTSTATUS replied(const UCHAR *b, ULONG size)
{
	struct reply reply;
	LIST_ENTRY *e;

	if (size < sizeof reply)
		return STATUS_INFO_LENGTH_MISMATCH;
	memcpy(&reply, b, sizeof reply);
	if (reply.out > size - sizeof reply)
		return STATUS_INFO_LENGTH_MISMATCH;
	for (e = requests.Flink; e != &requests; e = e->Flink) {
		struct waiting *w = CONTAINING_RECORD(e, struct waiting, entry);

		if (w->request.id != reply.id || !w->fetched)
			continue;
		if (reply.out > w->request.out)
			return STATUS_INFO_LENGTH_MISMATCH;
		RemoveEntryList(&w->entry);
		if (reply.out)
			memcpy(w->irp->AssociatedIrp.SystemBuffer, b + sizeof reply, reply.out);
		complete(w->irp, (NTSTATUS)reply.status, w->request.operation == OP_WRITE && !reply.status ? w->request.in : reply.out);
		ExFreePoolWithTag(w, TAG);
		return STATUS_SUCCESS;
	}
	return STATUS_INVALID_PARAMETER;
}

static void unlink_device(struct extension *x)
{
	while (x->count) {
		UNICODE_STRING *s = &x->links[--x->count];
		IoDeleteSymbolicLink(s);
		ExFreePoolWithTag(s->Buffer, TAG);
	}
}

/* remove_device removes its names; the device is deleted with its last handle. */
static void remove_device(struct extension *x)
{
	if (!x->removed) {
		unlink_device(x);
		x->removed = TRUE;
	}
	if (x->opens == 0) {
		RemoveEntryList(&x->entry);
		IoDeleteDevice(x->device);
	}
}

/* stop stops serving: waiting requests fail, and the devices are deleted. */
static void stop(void)
{
	LIST_ENTRY *e, *next;

	server = NULL;
	if (serving) {
		IRP *irp = serving;
		serving = NULL;
		complete(irp, STATUS_CANCELLED, 0);
	}
	while (!IsListEmpty(&requests)) {
		struct waiting *w = CONTAINING_RECORD(RemoveHeadList(&requests), struct waiting, entry);

		if (w->irp)
			complete(w->irp, STATUS_NO_SUCH_DEVICE, 0);
		ExFreePoolWithTag(w, TAG);
	}
	for (e = devices.Flink; e != &devices; e = next) {
		struct extension *x = CONTAINING_RECORD(e, struct extension, entry);

		next = e->Flink;
		remove_device(x);
	}
}

/* digits appends a number to a string. */
static void digits(WCHAR *s, ULONG n)
{
	WCHAR b[12];
	int i = 0;

	while (*s)
		s++;
	do
		b[i++] = L'0' + n % 10;
	while (n /= 10);
	while (i)
		*s++ = b[--i];
	*s = 0;
}

static NTSTATUS add(DRIVER_OBJECT *driver, const UCHAR *b, ULONG size)
{
	WCHAR name[64] = L"\\Device\\CSIProxyDevice";
	const WCHAR *s = (const WCHAR *)(b + FIELD_OFFSET(struct device, names));
	const WCHAR *end = (const WCHAR *)(b + (size & ~1u));
	struct extension *x;
	DEVICE_OBJECT *dev;
	UNICODE_STRING n;
	NTSTATUS status;

	if (size < sizeof(struct device))
		return STATUS_INFO_LENGTH_MISMATCH;
	digits(name, ++last_device);
	RtlInitUnicodeString(&n, name);
	status = IoCreateDevice(driver, sizeof *x, &n, FILE_DEVICE_DISK, 0, FALSE, &dev);
	if (status)
		return status;
	dev->Flags |= DO_BUFFERED_IO;
	x = dev->DeviceExtension;
	memset(x, 0, sizeof *x);
	x->device = dev;
	memcpy(&x->number, b, sizeof x->number);
	InsertTailList(&devices, &x->entry);
	dev->Flags &= ~DO_DEVICE_INITIALIZING;

	while (s < end && *s && x->count < LINKS) {
		UNICODE_STRING *link = &x->links[x->count];
		const WCHAR *e = s;

		while (e < end && *e)
			e++;
		link->Length = link->MaximumLength = (USHORT)((e - s) * sizeof *s);
		if (!(link->Buffer = ExAllocatePoolWithTag(NonPagedPool, link->Length, TAG)))
			return STATUS_NO_MEMORY;
		memcpy(link->Buffer, s, link->Length);
		x->count++;
		IoDeleteSymbolicLink(link); /* Wine has its own PhysicalDrive0 */
		if ((status = IoCreateSymbolicLink(link, &n))) {
			remove_device(x);
			return status;
		}
		s = e + 1;
	}
	return STATUS_SUCCESS;
}

static NTSTATUS control_device(DEVICE_OBJECT *dev, IRP *irp, IO_STACK_LOCATION *sp)
{
	ULONG in = sp->Parameters.DeviceIoControl.InputBufferLength;
	UCHAR *b = irp->AssociatedIrp.SystemBuffer;
	struct request request = {0};
	NTSTATUS status;
	LIST_ENTRY *e;

	switch (sp->Parameters.DeviceIoControl.IoControlCode) {
	case FORWARD_START:
		if (server)
			return complete(irp, STATUS_DEVICE_BUSY, 0);
		server = sp->FileObject;
		return complete(irp, STATUS_SUCCESS, 0);
	case FORWARD_SERVE:
		if (serving || server != sp->FileObject)
			return complete(irp, STATUS_CANCELLED, 0);
		IoMarkIrpPending(irp);
		serving = irp;
		hand();
		return STATUS_PENDING;
	case FORWARD_REPLY:
		return complete(irp, replied(b, in), 0);
	case FORWARD_STOP:
		stop();
		return complete(irp, STATUS_SUCCESS, 0);
	case FORWARD_ADD:
		return complete(irp, add(dev->DriverObject, b, in), 0);
	case FORWARD_REMOVE:
		for (e = devices.Flink; in == sizeof(ULONG) && e != &devices; e = e->Flink) {
			struct extension *x = CONTAINING_RECORD(e, struct extension, entry);

			if (x->number == *(ULONG *)b && !x->removed) {
				remove_device(x);
				return complete(irp, STATUS_SUCCESS, 0);
			}
		}
		return complete(irp, STATUS_INVALID_PARAMETER, 0);
	case FORWARD_CALL:
		request.operation = OP_CALL;
		request.in = in;
		request.out = sp->Parameters.DeviceIoControl.OutputBufferLength;
		status = forward(irp, TRUE, &request, b);
		return status == STATUS_PENDING ? status : complete(irp, status, 0);
	}
	return complete(irp, STATUS_INVALID_DEVICE_REQUEST, 0);
}

/* mount_points sends queries for mount points to the server, and everything else
 * to Wine's mount manager. */
static NTSTATUS mount_points(IRP *irp, IO_STACK_LOCATION *sp)
{
	ULONG code = sp->Parameters.DeviceIoControl.IoControlCode;
	ULONG in = sp->Parameters.DeviceIoControl.InputBufferLength;
	ULONG out = sp->Parameters.DeviceIoControl.OutputBufferLength;
	UCHAR *b = irp->AssociatedIrp.SystemBuffer;
	struct request request = {0};
	IO_STATUS_BLOCK io = {0};
	NTSTATUS status;

	if (server && code == QUERY_POINTS) {
		request.operation = OP_POINTS;
		request.code = code;
		request.in = in;
		request.out = out;
		status = forward(irp, TRUE, &request, b);
		return status == STATUS_PENDING ? status : complete(irp, status, 0);
	}
	if (!real_points) {
		UNICODE_STRING name;
		OBJECT_ATTRIBUTES attributes;

		RtlInitUnicodeString(&name, POINTS_REAL);
		InitializeObjectAttributes(&attributes, &name, OBJ_CASE_INSENSITIVE, NULL, NULL);
		status = ZwOpenFile(&real_points, SYNCHRONIZE | GENERIC_READ | GENERIC_WRITE, &attributes, &io,
				    FILE_SHARE_READ | FILE_SHARE_WRITE, FILE_SYNCHRONOUS_IO_NONALERT);
		if (status)
			return complete(irp, status, 0);
	}
	status = ZwDeviceIoControlFile(real_points, NULL, NULL, NULL, &io, code, b, in, b, out);
	return complete(irp, status, io.Information);
}

static NTSTATUS NTAPI dispatch(DEVICE_OBJECT *dev, IRP *irp)
{
	IO_STACK_LOCATION *sp = IoGetCurrentIrpStackLocation(irp);
	struct extension *x = dev->DeviceExtension;
	struct request request = {0};
	const void *in = irp->AssociatedIrp.SystemBuffer;
	NTSTATUS status;

	if (dev == control || dev == points) {
		if (sp->MajorFunction == IRP_MJ_DEVICE_CONTROL)
			return dev == control ? control_device(dev, irp, sp) : mount_points(irp, sp);
		if (sp->MajorFunction == IRP_MJ_CLOSE && sp->FileObject == server)
			stop();
		return complete(irp, STATUS_SUCCESS, 0);
	}

	request.device = x->number;
	request.handle = (ULONG_PTR)sp->FileObject->FsContext;
	switch (sp->MajorFunction) {
	case IRP_MJ_CREATE:
		sp->FileObject->FsContext = (void *)(ULONG_PTR)++last_file;
		x->opens++;
		request.operation = OP_CREATE;
		request.handle = last_file;
		request.share = sp->Parameters.Create.ShareAccess;
		return complete(irp, forward(irp, FALSE, &request, NULL), 0);
	case IRP_MJ_CLOSE:
		request.operation = OP_CLOSE;
		forward(irp, FALSE, &request, NULL);
		if (--x->opens == 0 && x->removed)
			remove_device(x);
		return complete(irp, STATUS_SUCCESS, 0);
	case IRP_MJ_DEVICE_CONTROL:
		request.operation = OP_CONTROL;
		request.code = sp->Parameters.DeviceIoControl.IoControlCode;
		request.in = sp->Parameters.DeviceIoControl.InputBufferLength;
		request.out = sp->Parameters.DeviceIoControl.OutputBufferLength;
		break;
	case IRP_MJ_READ:
		request.operation = OP_READ;
		request.offset = sp->Parameters.Read.ByteOffset.QuadPart;
		request.out = sp->Parameters.Read.Length;
		break;
	case IRP_MJ_WRITE:
		request.operation = OP_WRITE;
		request.offset = sp->Parameters.Write.ByteOffset.QuadPart;
		request.in = sp->Parameters.Write.Length;
		break;
	case IRP_MJ_FLUSH_BUFFERS:
		request.operation = OP_FLUSH;
		break;
	case IRP_MJ_QUERY_VOLUME_INFORMATION:
		request.operation = OP_VOLUME;
		request.code = sp->Parameters.QueryVolume.FsInformationClass;
		request.out = sp->Parameters.QueryVolume.Length;
		break;
	default:
		return complete(irp, STATUS_SUCCESS, 0); /* IRP_MJ_CLEANUP */
	}
	status = forward(irp, TRUE, &request, in);
	return status == STATUS_PENDING ? status : complete(irp, status, 0);
}

static NTSTATUS named(DRIVER_OBJECT *driver, const WCHAR *device, const WCHAR *link, DEVICE_OBJECT **made)
{
	UNICODE_STRING d, l;
	NTSTATUS status;

	RtlInitUnicodeString(&d, device);
	RtlInitUnicodeString(&l, link);
	if ((status = IoCreateDevice(driver, 0, &d, FILE_DEVICE_UNKNOWN, 0, FALSE, made)))
		return status;
	(*made)->Flags |= DO_BUFFERED_IO;
	(*made)->Flags &= ~DO_DEVICE_INITIALIZING;
	IoDeleteSymbolicLink(&l);
	return IoCreateSymbolicLink(&l, &d);
}

NTSTATUS NTAPI DriverEntry(DRIVER_OBJECT *driver, UNICODE_STRING *path)
{
	static const UCHAR served[] = {
		IRP_MJ_CREATE, IRP_MJ_CLOSE, IRP_MJ_CLEANUP, IRP_MJ_DEVICE_CONTROL, IRP_MJ_READ, IRP_MJ_WRITE,
		IRP_MJ_FLUSH_BUFFERS, IRP_MJ_QUERY_VOLUME_INFORMATION,
	};
	NTSTATUS status;
	ULONG i;

	(void)path;
	InitializeListHead(&devices);
	InitializeListHead(&requests);
	for (i = 0; i < sizeof served; i++)
		driver->MajorFunction[served[i]] = dispatch;
	if ((status = named(driver, CONTROL_DEVICE, CONTROL_LINK, &control)))
		return status;
	return named(driver, POINTS_DEVICE, POINTS_LINK, &points);
}
