/*
 * bcryptprimitives.dll for programs in Go under Wine 10. Each Go program loads this DLL at
 * its start, for random numbers. Wine 10 has no reparse points, and follows symbolic links
 * of Linux unseen, so this DLL also changes five functions of kernel32.dll, in memory, for
 * paths that package mirror has made links. For each there is a file
 * C:\.csi-proxy-links\<hash of the path>, with the target in UTF-16:
 *
 * - CreateFileW with FILE_FLAG_OPEN_REPARSE_POINT opens that file in place of the link;
 * - DeviceIoControl with FSCTL_GET_REPARSE_POINT, which is what os.Readlink calls, answers
 *   from it, and GetFileInformationByHandle(Ex), which os.Lstat calls, describe a link;
 * - RemoveDirectoryW, which is what os.Remove calls, removes it, and waits until the mirror
 *   has removed the link.
 *
 * Wine 10 has no Unix sockets either. GetProcAddress, by which Go finds functions, returns
 * others for those that make such a socket: it is one of TCP on the loopback address, and the
 * file at its path has the port.
 */
#include <winsock2.h>
#include <windows.h>
#include <winioctl.h>

#define LINKS L"C:\\.csi-proxy-links\\"
#define LINKS_LENGTH (sizeof LINKS / sizeof(WCHAR) - 1)

BOOLEAN NTAPI SystemFunction036(PVOID buffer, ULONG length); /* RtlGenRandom, of advapi32 */

__declspec(dllexport) BOOL WINAPI ProcessPrng(PBYTE buffer, SIZE_T length)
{
	while (length) {
		ULONG n = length > 1 << 20 ? 1 << 20 : (ULONG)length;
		if (!SystemFunction036(buffer, n))
			return FALSE;
		buffer += n;
		length -= n;
	}
	return TRUE;
}

/* The code of these functions is in kernelbase.dll. */
static HANDLE(WINAPI *create)(LPCWSTR, DWORD, DWORD, LPSECURITY_ATTRIBUTES, DWORD, DWORD, HANDLE);
static BOOL(WINAPI *control)(HANDLE, DWORD, LPVOID, DWORD, LPVOID, DWORD, LPDWORD, LPOVERLAPPED);
static BOOL(WINAPI *info)(HANDLE, BY_HANDLE_FILE_INFORMATION *);
static BOOL(WINAPI *info_ex)(HANDLE, FILE_INFO_BY_HANDLE_CLASS, LPVOID, DWORD);
static BOOL(WINAPI *removedir)(LPCWSTR);

/* link_file returns the file for a path of C:, if the path is a link. The hash is FNV-1a
 * over the path without its drive, in upper case, as package shim computes it. */
static BOOL link_file(LPCWSTR name, WCHAR *file)
{
	WCHAR path[1024];
	ULONGLONG hash = 14695981039346656037ull;
	DWORD n, i;
	if (name[0] == '\\' && name[1] == '\\' && (name[2] == '?' || name[2] == '.') && name[3] == '\\')
		name += 4;
	n = GetFullPathNameW(name, 1024, path, NULL);
	if (!n || n >= 1024 || (path[0] | 32) != 'c' || path[1] != ':')
		return FALSE;
	while (n > 3 && path[n - 1] == '\\')
		n--;
	for (i = 2; i < n; i++) {
		WCHAR c = path[i];
		if (c >= 'a' && c <= 'z')
			c -= 'a' - 'A';
		hash = (hash ^ (c & 0xff)) * 1099511628211ull;
		hash = (hash ^ (c >> 8)) * 1099511628211ull;
	}
	lstrcpyW(file, LINKS);
	for (i = 0; i < 16; i++)
		file[LINKS_LENGTH + i] = L"0123456789abcdef"[hash >> (60 - 4 * i) & 15];
	file[LINKS_LENGTH + 16] = 0;
	return GetFileAttributesW(file) != INVALID_FILE_ATTRIBUTES;
}

static HANDLE WINAPI our_create(LPCWSTR name, DWORD access, DWORD share, LPSECURITY_ATTRIBUTES security, DWORD disposition, DWORD flags, HANDLE template)
{
	WCHAR file[LINKS_LENGTH + 17];
	DWORD before = GetLastError();
	if (name && flags & FILE_FLAG_OPEN_REPARSE_POINT && disposition == OPEN_EXISTING && link_file(name, file))
		return create(file, GENERIC_READ, FILE_SHARE_READ | FILE_SHARE_WRITE | FILE_SHARE_DELETE, NULL, OPEN_EXISTING, 0, NULL);
	SetLastError(before);
	return create(name, access, share, security, disposition, flags, template);
}

/* REPARSE_DATA_BUFFER; in a symbolic link, four bytes of flags are before the path. */
struct link {
	ULONG tag;
	USHORT length, reserved;
	USHORT substitute, substitute_length, print, print_length;
	WCHAR path[1];
};
#define LINK_HEADER 16

#define MOUNT_POINT L"\\??\\Volume{"
#define MOUNT_POINT_LENGTH (sizeof MOUNT_POINT / sizeof(WCHAR) - 1)

/* link_of returns the tag of the link whose file h is, and 0 for other handles. */
static ULONG link_of(HANDLE h, WCHAR *target, DWORD *size)
{
	WCHAR path[1024];
	OVERLAPPED at = {0};
	DWORD n;
	if (GetFileType(h) != FILE_TYPE_DISK)
		return 0;
	n = GetFinalPathNameByHandleW(h, path, 1024, 0); /* with \\?\ before the drive */
	if (n <= 4 + LINKS_LENGTH || n >= 1024 || CompareStringOrdinal(path + 4, LINKS_LENGTH, LINKS, LINKS_LENGTH, TRUE) != CSTR_EQUAL)
		return 0;
	if (!ReadFile(h, target, 1024 * sizeof(WCHAR), size, &at))
		return 0;
	n = *size / sizeof(WCHAR);
	return n > MOUNT_POINT_LENGTH && CompareStringOrdinal(target, MOUNT_POINT_LENGTH, MOUNT_POINT, MOUNT_POINT_LENGTH, TRUE) == CSTR_EQUAL ? IO_REPARSE_TAG_MOUNT_POINT : IO_REPARSE_TAG_SYMLINK;
}

static BOOL WINAPI our_info(HANDLE h, BY_HANDLE_FILE_INFORMATION *to)
{
	WCHAR target[1024];
	DWORD n, before = GetLastError();
	if (!info(h, to))
		return FALSE;
	if (link_of(h, target, &n)) {
		to->dwFileAttributes = FILE_ATTRIBUTE_DIRECTORY | FILE_ATTRIBUTE_REPARSE_POINT;
		to->nFileSizeLow = to->nFileSizeHigh = 0;
	}
	SetLastError(before);
	return TRUE;
}

static BOOL WINAPI our_info_ex(HANDLE h, FILE_INFO_BY_HANDLE_CLASS class, LPVOID to, DWORD size)
{
	WCHAR target[1024];
	DWORD n, before = GetLastError();
	FILE_ATTRIBUTE_TAG_INFO *tag = to;
	ULONG link = class == FileAttributeTagInfo && size >= sizeof *tag ? link_of(h, target, &n) : 0;
	SetLastError(before);
	if (!link)
		return info_ex(h, class, to, size);
	tag->FileAttributes = FILE_ATTRIBUTE_DIRECTORY | FILE_ATTRIBUTE_REPARSE_POINT;
	tag->ReparseTag = link;
	return TRUE;
}

static BOOL WINAPI our_control(HANDLE h, DWORD code, LPVOID in, DWORD in_size, LPVOID out, DWORD out_size, LPDWORD got, LPOVERLAPPED overlapped)
{
	WCHAR target[1024];
	struct link *l = out;
	DWORD n, flags;
	ULONG tag = code == FSCTL_GET_REPARSE_POINT && out ? link_of(h, target, &n) : 0;
	if (!tag)
		return control(h, code, in, in_size, out, out_size, got, overlapped);
	flags = tag == IO_REPARSE_TAG_SYMLINK ? 4 : 0;
	if (out_size < LINK_HEADER + flags + n) {
		SetLastError(ERROR_INSUFFICIENT_BUFFER);
		return FALSE;
	}
	ZeroMemory(out, LINK_HEADER + flags);
	l->tag = tag;
	l->length = (USHORT)(LINK_HEADER - 8 + flags + n);
	l->substitute_length = l->print_length = (USHORT)n;
	CopyMemory((char *)l->path + flags, target, n);
	if (got)
		*got = LINK_HEADER + flags + n;
	return TRUE;
}

static BOOL WINAPI our_removedir(LPCWSTR name)
{
	WCHAR file[LINKS_LENGTH + 17];
	DWORD begin = GetTickCount();
	if (!name || !link_file(name, file))
		return removedir(name);
	if (!DeleteFileW(file))
		return FALSE;
	/* The mirror leaves a file with this name when it is done. */
	lstrcatW(file, L".gone");
	while (!DeleteFileW(file)) {
		if (GetTickCount() - begin > 10000) {
			SetLastError(ERROR_TIMEOUT);
			return FALSE;
		}
		Sleep(2);
	}
	return TRUE;
}

/* A listening Unix socket. The first bytes are those of struct sockaddr_un. */
#define UNIX_PATH 108
struct listener {
	SOCKET socket;
	HANDLE file;
	USHORT port; /* in the order of the network */
	struct {
		USHORT family;
		char path[UNIX_PATH];
	} address;
};
static struct listener listeners[8];

static struct listener *listener_of(SOCKET s)
{
	for (unsigned i = 0; i < sizeof listeners / sizeof *listeners; i++)
		if (listeners[i].port && listeners[i].socket == s)
			return listeners + i;
	return NULL;
}

static SOCKET WSAAPI our_socket(int family, int type, int protocol, LPWSAPROTOCOL_INFOW info_of, GROUP group, DWORD flags)
{
	return WSASocketW(family == AF_UNIX ? AF_INET : family, type, protocol, info_of, group, flags);
}

static int fail(int error)
{
	WSASetLastError(error);
	return SOCKET_ERROR;
}

static int WSAAPI our_bind(SOCKET s, const struct sockaddr *address, int size)
{
	struct listener l = {.socket = s};
	struct sockaddr_in at = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
	int at_size = sizeof at, i = 0, n = size - (int)offsetof(struct sockaddr, sa_data);
	WCHAR path[UNIX_PATH + 1];
	if (address->sa_family != AF_UNIX)
		return bind(s, address, size);
	if (n <= 0 || n > UNIX_PATH)
		return fail(WSAEINVAL);
	l.address.family = AF_UNIX;
	CopyMemory(l.address.path, address->sa_data, n);
	l.address.path[UNIX_PATH - 1] = 0;
	if (!MultiByteToWideChar(CP_UTF8, 0, l.address.path, -1, path, UNIX_PATH + 1))
		return fail(WSAEINVAL);
	while (i < 8 && listeners[i].port)
		i++;
	if (i == 8)
		return fail(WSAENOBUFS);
	l.file = CreateFileW(path, GENERIC_WRITE, FILE_SHARE_READ | FILE_SHARE_WRITE | FILE_SHARE_DELETE, NULL, CREATE_NEW, 0, NULL);
	if (l.file == INVALID_HANDLE_VALUE)
		return fail(GetLastError() == ERROR_FILE_EXISTS ? WSAEADDRINUSE : WSAEINVAL);
	if (bind(s, (struct sockaddr *)&at, sizeof at) || getsockname(s, (struct sockaddr *)&at, &at_size)) {
		i = WSAGetLastError();
		CloseHandle(l.file);
		DeleteFileW(path);
		return fail(i);
	}
	l.port = at.sin_port;
	listeners[i] = l;
	return 0;
}

/* our_listen writes the port, and a number that another start of the program does not write. */
static int WSAAPI our_listen(SOCKET s, int backlog)
{
	struct listener *l = listener_of(s);
	char text[64];
	DWORD n;
	if (listen(s, backlog))
		return SOCKET_ERROR;
	if (l && l->file) {
		n = wsprintfA(text, "%u %u.%u\n", ntohs(l->port), GetCurrentProcessId(), GetTickCount());
		WriteFile(l->file, text, n, &n, NULL);
		CloseHandle(l->file);
		l->file = NULL;
	}
	return 0;
}

static int WSAAPI our_getsockname(SOCKET s, struct sockaddr *address, int *size)
{
	struct listener *l = listener_of(s);
	if (!l)
		return getsockname(s, address, size);
	if (*size < (int)sizeof l->address)
		return fail(WSAEFAULT);
	CopyMemory(address, &l->address, sizeof l->address);
	*size = sizeof l->address;
	return 0;
}

static int WSAAPI our_closesocket(SOCKET s)
{
	struct listener *l = listener_of(s);
	if (l && l->file)
		CloseHandle(l->file);
	if (l)
		ZeroMemory(l, sizeof *l);
	return closesocket(s);
}

static FARPROC(WINAPI *getproc)(HMODULE, LPCSTR);

/* our_accepted makes the addresses of a connection to such a socket empty ones of a Unix socket. */
static void WSAAPI our_accepted(PVOID buffer, DWORD data, DWORD local_size, DWORD remote_size, struct sockaddr **local, int *local_got, struct sockaddr **remote, int *remote_got)
{
	HMODULE dll = GetModuleHandleW(L"mswsock.dll");
	void(WSAAPI * original)(PVOID, DWORD, DWORD, DWORD, struct sockaddr **, int *, struct sockaddr **, int *) = (void *)getproc(dll, "GetAcceptExSockaddrs");
	original(buffer, data, local_size, remote_size, local, local_got, remote, remote_got);
	for (unsigned i = 0; i < sizeof listeners / sizeof *listeners; i++)
		if (listeners[i].port && (*local)->sa_family == AF_INET && ((struct sockaddr_in *)*local)->sin_port == listeners[i].port) {
			ZeroMemory(*local, sizeof **local);
			ZeroMemory(*remote, sizeof **remote);
			(*local)->sa_family = (*remote)->sa_family = AF_UNIX;
			return;
		}
}

static FARPROC WINAPI our_getproc(HMODULE dll, LPCSTR name)
{
	static const struct {
		const char *name;
		void *ours;
	} ours[] = {
		{"WSASocketW", (void *)our_socket},
		{"bind", (void *)our_bind},
		{"listen", (void *)our_listen},
		{"getsockname", (void *)our_getsockname},
		{"closesocket", (void *)our_closesocket},
		{"GetAcceptExSockaddrs", (void *)our_accepted},
	};
	FARPROC found = getproc(dll, name);
	for (unsigned i = 0; found && (ULONG_PTR)name >> 16 && i < sizeof ours / sizeof *ours; i++)
		if (!lstrcmpA(name, ours[i].name))
			return (FARPROC)ours[i].ours;
	return found;
}

static void replace(const char *name, void *ours, void *original)
{
	/* movabs rax, ours; jmp rax */
	unsigned char jump[12] = {0x48, 0xb8, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xe0};
	unsigned char *from = (unsigned char *)(void *)GetProcAddress(GetModuleHandleW(L"kernel32.dll"), name);
	DWORD old;
	if (!original || !from || (void *)from == original || !VirtualProtect(from, sizeof jump, PAGE_EXECUTE_READWRITE, &old))
		return; /* without links */
	CopyMemory(jump + 2, &ours, sizeof ours);
	CopyMemory(from, jump, sizeof jump);
	VirtualProtect(from, sizeof jump, old, &old);
	FlushInstructionCache(GetCurrentProcess(), from, sizeof jump);
}

/* Wine takes /var/lib/kubelet for a path of Linux, and Windows for one of the current drive.
 * All functions for files come to these three, which kernelbase.dll imports. */
struct unicode {
	USHORT length, maximum;
	PWSTR buffer;
};
static LONG(WINAPI *to_nt)(PCWSTR, struct unicode *, PWSTR *, void *);
static BOOLEAN(WINAPI *to_nt_too)(PCWSTR, struct unicode *, PWSTR *, void *);
static ULONG(WINAPI *full)(PCWSTR, ULONG, PWSTR, PWSTR *);

static PCWSTR backslashes(PCWSTR name, WCHAR *copy, int size)
{
	int i = 0;
	if (!name || name[0] != '/' || name[1] == '/')
		return name;
	for (; i < size - 1 && name[i]; i++)
		copy[i] = name[i] == '/' ? '\\' : name[i];
	copy[i] = 0;
	return name[i] ? name : copy;
}

static LONG WINAPI our_to_nt(PCWSTR name, struct unicode *to, PWSTR *part, void *reserved)
{
	WCHAR copy[1024];
	return to_nt(backslashes(name, copy, 1024), to, part, reserved);
}

static BOOLEAN WINAPI our_to_nt_too(PCWSTR name, struct unicode *to, PWSTR *part, void *reserved)
{
	WCHAR copy[1024];
	return to_nt_too(backslashes(name, copy, 1024), to, part, reserved);
}

static ULONG WINAPI our_full(PCWSTR name, ULONG size, PWSTR to, PWSTR *part)
{
	WCHAR copy[1024];
	return full(backslashes(name, copy, 1024), size, to, part);
}

/* import makes a DLL call ours in place of a function that it imports from ntdll.dll. */
static void *import(HMODULE dll, const char *name, void *ours)
{
	BYTE *base = (BYTE *)dll;
	IMAGE_NT_HEADERS *headers = (IMAGE_NT_HEADERS *)(base + ((IMAGE_DOS_HEADER *)base)->e_lfanew);
	IMAGE_DATA_DIRECTORY *at = headers->OptionalHeader.DataDirectory + IMAGE_DIRECTORY_ENTRY_IMPORT;
	IMAGE_IMPORT_DESCRIPTOR *d = (IMAGE_IMPORT_DESCRIPTOR *)(base + at->VirtualAddress);
	void *original = (void *)GetProcAddress(GetModuleHandleW(L"ntdll.dll"), name);
	DWORD old;
	for (; original && at->Size && d->Name; d++)
		for (void **p = (void **)(base + d->FirstThunk); *p; p++)
			if (*p == original && VirtualProtect(p, sizeof *p, PAGE_READWRITE, &old)) {
				*p = ours;
				VirtualProtect(p, sizeof *p, old, &old);
				return original;
			}
	return NULL;
}

BOOL WINAPI DllMain(HINSTANCE dll, DWORD reason, LPVOID reserved)
{
	HMODULE base = GetModuleHandleW(L"kernelbase.dll");
	(void)dll, (void)reserved;
	if (reason != DLL_PROCESS_ATTACH || !base)
		return TRUE;
	to_nt = import(base, "RtlDosPathNameToNtPathName_U_WithStatus", (void *)our_to_nt);
	to_nt_too = import(base, "RtlDosPathNameToNtPathName_U", (void *)our_to_nt_too);
	full = import(base, "RtlGetFullPathName_U", (void *)our_full);
	create = (void *)GetProcAddress(base, "CreateFileW");
	control = (void *)GetProcAddress(base, "DeviceIoControl");
	removedir = (void *)GetProcAddress(base, "RemoveDirectoryW");
	replace("CreateFileW", (void *)our_create, (void *)create);
	replace("DeviceIoControl", (void *)our_control, (void *)control);
	info = (void *)GetProcAddress(base, "GetFileInformationByHandle");
	info_ex = (void *)GetProcAddress(base, "GetFileInformationByHandleEx");
	replace("GetFileInformationByHandle", (void *)our_info, (void *)info);
	replace("GetFileInformationByHandleEx", (void *)our_info_ex, (void *)info_ex);
	replace("RemoveDirectoryW", (void *)our_removedir, (void *)removedir);
	getproc = (void *)GetProcAddress(base, "GetProcAddress");
	replace("GetProcAddress", (void *)our_getproc, (void *)getproc);
	return TRUE;
}
