package win32

import (
	"errors"
	"fmt"
	"io/fs"
)

// Errno is a Win32 error number (winerror.h), as GetLastError returns it.
type Errno uint32

// The Win32 errors that this project handles.
const (
	ERROR_INVALID_FUNCTION            Errno = 1
	ERROR_FILE_NOT_FOUND              Errno = 2
	ERROR_PATH_NOT_FOUND              Errno = 3
	ERROR_ACCESS_DENIED               Errno = 5
	ERROR_INVALID_HANDLE              Errno = 6
	ERROR_NOT_ENOUGH_MEMORY           Errno = 8
	ERROR_INVALID_DRIVE               Errno = 15
	ERROR_NOT_SAME_DEVICE             Errno = 17
	ERROR_NO_MORE_FILES               Errno = 18
	ERROR_WRITE_PROTECT               Errno = 19
	ERROR_NOT_READY                   Errno = 21
	ERROR_CRC                         Errno = 23
	ERROR_BAD_LENGTH                  Errno = 24
	ERROR_SEEK                        Errno = 25
	ERROR_SECTOR_NOT_FOUND            Errno = 27
	ERROR_WRITE_FAULT                 Errno = 29
	ERROR_READ_FAULT                  Errno = 30
	ERROR_GEN_FAILURE                 Errno = 31
	ERROR_SHARING_VIOLATION           Errno = 32
	ERROR_HANDLE_EOF                  Errno = 38
	ERROR_NOT_SUPPORTED               Errno = 50
	ERROR_REM_NOT_LIST                Errno = 51
	ERROR_BAD_NETPATH                 Errno = 53
	ERROR_DEV_NOT_EXIST               Errno = 55
	ERROR_UNEXP_NET_ERR               Errno = 59
	ERROR_NETNAME_DELETED             Errno = 64
	ERROR_NETWORK_ACCESS_DENIED       Errno = 65
	ERROR_BAD_NET_NAME                Errno = 67
	ERROR_FILE_EXISTS                 Errno = 80
	ERROR_ALREADY_ASSIGNED            Errno = 85
	ERROR_INVALID_PASSWORD            Errno = 86
	ERROR_INVALID_PARAMETER           Errno = 87
	ERROR_DISK_FULL                   Errno = 112
	ERROR_CALL_NOT_IMPLEMENTED        Errno = 120
	ERROR_SEM_TIMEOUT                 Errno = 121
	ERROR_INSUFFICIENT_BUFFER         Errno = 122
	ERROR_INVALID_NAME                Errno = 123
	ERROR_INVALID_LEVEL               Errno = 124
	ERROR_DIR_NOT_ROOT                Errno = 144
	ERROR_DIR_NOT_EMPTY               Errno = 145
	ERROR_BAD_PATHNAME                Errno = 161
	ERROR_BUSY                        Errno = 170
	ERROR_ALREADY_EXISTS              Errno = 183
	ERROR_FILENAME_EXCED_RANGE        Errno = 206
	ERROR_MORE_DATA                   Errno = 234
	ERROR_DIRECTORY                   Errno = 267
	ERROR_DELETE_PENDING              Errno = 303
	ERROR_NO_SUCH_DEVICE              Errno = 433
	ERROR_DEVICE_HARDWARE_ERROR       Errno = 483
	ERROR_UNRECOGNIZED_VOLUME         Errno = 1005
	ERROR_DEPENDENT_SERVICES_RUNNING  Errno = 1051
	ERROR_INVALID_SERVICE_CONTROL     Errno = 1052
	ERROR_SERVICE_REQUEST_TIMEOUT     Errno = 1053
	ERROR_SERVICE_DATABASE_LOCKED     Errno = 1055
	ERROR_SERVICE_ALREADY_RUNNING     Errno = 1056
	ERROR_SERVICE_DISABLED            Errno = 1058
	ERROR_CIRCULAR_DEPENDENCY         Errno = 1059
	ERROR_SERVICE_DOES_NOT_EXIST      Errno = 1060
	ERROR_SERVICE_CANNOT_ACCEPT_CTRL  Errno = 1061
	ERROR_SERVICE_NOT_ACTIVE          Errno = 1062
	ERROR_EXCEPTION_IN_SERVICE        Errno = 1064
	ERROR_SERVICE_SPECIFIC_ERROR      Errno = 1066
	ERROR_PROCESS_ABORTED             Errno = 1067
	ERROR_SERVICE_DEPENDENCY_FAIL     Errno = 1068
	ERROR_SERVICE_LOGON_FAILED        Errno = 1069
	ERROR_SERVICE_MARKED_FOR_DELETE   Errno = 1072
	ERROR_MEDIA_CHANGED               Errno = 1110
	ERROR_IO_DEVICE                   Errno = 1117
	ERROR_DISK_RECALIBRATE_FAILED     Errno = 1126
	ERROR_DISK_OPERATION_FAILED       Errno = 1127
	ERROR_DISK_RESET_FAILED           Errno = 1128
	ERROR_NOT_ENOUGH_SERVER_MEMORY    Errno = 1130
	ERROR_DEVICE_NOT_CONNECTED        Errno = 1167
	ERROR_NOT_FOUND                   Errno = 1168
	ERROR_SESSION_CREDENTIAL_CONFLICT Errno = 1219
	ERROR_CONNECTION_REFUSED          Errno = 1225
	ERROR_NETWORK_UNREACHABLE         Errno = 1231
	ERROR_HOST_UNREACHABLE            Errno = 1232
	ERROR_NO_LOGON_SERVERS            Errno = 1311
	ERROR_NO_SUCH_LOGON_SESSION       Errno = 1312
	ERROR_PRIVILEGE_NOT_HELD          Errno = 1314
	ERROR_LOGON_FAILURE               Errno = 1326
	ERROR_ACCOUNT_RESTRICTION         Errno = 1327
	ERROR_PASSWORD_EXPIRED            Errno = 1330
	ERROR_ACCOUNT_DISABLED            Errno = 1331
	ERROR_INVALID_SECURITY_DESCR      Errno = 1338
	ERROR_FILE_CORRUPT                Errno = 1392
	ERROR_DISK_CORRUPT                Errno = 1393
	ERROR_NO_SYSTEM_RESOURCES         Errno = 1450
	ERROR_TIMEOUT                     Errno = 1460
	ERROR_SYMLINK_CLASS_DISABLED      Errno = 1463
	ERROR_DEVICE_REMOVED              Errno = 1617
	RPC_S_UNKNOWN_IF                  Errno = 1717
	RPC_S_SERVER_UNAVAILABLE          Errno = 1722
	ERROR_PASSWORD_MUST_CHANGE        Errno = 1907
	ERROR_ACCOUNT_LOCKED_OUT          Errno = 1909
	ERROR_CANT_ACCESS_FILE            Errno = 1920
	ERROR_CANT_RESOLVE_FILENAME       Errno = 1921
	NERR_WkstaNotStarted              Errno = 2138
	ERROR_NOT_CONNECTED               Errno = 2250
	ERROR_NOT_A_REPARSE_POINT         Errno = 4390
	ERROR_REPARSE_ATTRIBUTE_CONFLICT  Errno = 4391
	ERROR_INVALID_REPARSE_DATA        Errno = 4392
	ERROR_REPARSE_TAG_INVALID         Errno = 4393
	ERROR_REPARSE_TAG_MISMATCH        Errno = 4394
	ERROR_REPARSE_POINT_ENCOUNTERED   Errno = 4395
)

// NTStatus is the result of an Nt function (ntstatus.h).
type NTStatus uint32

// The NTSTATUS values that this project handles.
const (
	STATUS_BUFFER_OVERFLOW              NTStatus = 0x80000005
	STATUS_NO_MORE_FILES                NTStatus = 0x80000006
	STATUS_NOT_IMPLEMENTED              NTStatus = 0xC0000002
	STATUS_INVALID_INFO_CLASS           NTStatus = 0xC0000003
	STATUS_INFO_LENGTH_MISMATCH         NTStatus = 0xC0000004
	STATUS_INVALID_HANDLE               NTStatus = 0xC0000008
	STATUS_INVALID_PARAMETER            NTStatus = 0xC000000d
	STATUS_NO_SUCH_DEVICE               NTStatus = 0xC000000e
	STATUS_NO_SUCH_FILE                 NTStatus = 0xC000000f
	STATUS_INVALID_DEVICE_REQUEST       NTStatus = 0xC0000010
	STATUS_ACCESS_DENIED                NTStatus = 0xC0000022
	STATUS_BUFFER_TOO_SMALL             NTStatus = 0xC0000023
	STATUS_DISK_CORRUPT_ERROR           NTStatus = 0xC0000032
	STATUS_OBJECT_NAME_INVALID          NTStatus = 0xC0000033
	STATUS_OBJECT_NAME_NOT_FOUND        NTStatus = 0xC0000034
	STATUS_OBJECT_NAME_COLLISION        NTStatus = 0xC0000035
	STATUS_OBJECT_PATH_INVALID          NTStatus = 0xC0000039
	STATUS_OBJECT_PATH_NOT_FOUND        NTStatus = 0xC000003a
	STATUS_OBJECT_PATH_SYNTAX_BAD       NTStatus = 0xC000003b
	STATUS_SHARING_VIOLATION            NTStatus = 0xC0000043
	STATUS_DELETE_PENDING               NTStatus = 0xC0000056
	STATUS_PRIVILEGE_NOT_HELD           NTStatus = 0xC0000061
	STATUS_LOGON_FAILURE                NTStatus = 0xC000006D
	STATUS_INVALID_SECURITY_DESCR       NTStatus = 0xC0000079
	STATUS_DISK_FULL                    NTStatus = 0xC000007f
	STATUS_INSUFFICIENT_RESOURCES       NTStatus = 0xC000009a
	STATUS_MEDIA_WRITE_PROTECTED        NTStatus = 0xC00000a2
	STATUS_DEVICE_NOT_READY             NTStatus = 0xC00000a3
	STATUS_IO_TIMEOUT                   NTStatus = 0xC00000b5
	STATUS_FILE_IS_A_DIRECTORY          NTStatus = 0xC00000ba
	STATUS_NOT_SUPPORTED                NTStatus = 0xC00000bb
	STATUS_BAD_NETWORK_PATH             NTStatus = 0xC00000be
	STATUS_UNEXPECTED_NETWORK_ERROR     NTStatus = 0xC00000C4
	STATUS_NETWORK_NAME_DELETED         NTStatus = 0xC00000C9
	STATUS_BAD_NETWORK_NAME             NTStatus = 0xC00000cc
	STATUS_NOT_SAME_DEVICE              NTStatus = 0xC00000d4
	STATUS_DIRECTORY_NOT_EMPTY          NTStatus = 0xC0000101
	STATUS_NOT_A_DIRECTORY              NTStatus = 0xC0000103
	STATUS_NAME_TOO_LONG                NTStatus = 0xC0000106
	STATUS_CANNOT_DELETE                NTStatus = 0xC0000121
	STATUS_FILE_DELETED                 NTStatus = 0xC0000123
	STATUS_UNRECOGNIZED_VOLUME          NTStatus = 0xC000014f
	STATUS_IO_DEVICE_ERROR              NTStatus = 0xC0000185
	STATUS_VOLUME_DISMOUNTED            NTStatus = 0xC000026e
	STATUS_NOT_A_REPARSE_POINT          NTStatus = 0xC0000275
	STATUS_IO_REPARSE_TAG_INVALID       NTStatus = 0xC0000276
	STATUS_IO_REPARSE_TAG_MISMATCH      NTStatus = 0xC0000277
	STATUS_IO_REPARSE_DATA_INVALID      NTStatus = 0xC0000278
	STATUS_IO_REPARSE_TAG_NOT_HANDLED   NTStatus = 0xC0000279
	STATUS_REPARSE_POINT_NOT_RESOLVED   NTStatus = 0xC0000280
	STATUS_DIRECTORY_IS_A_REPARSE_POINT NTStatus = 0xC0000281
	STATUS_REPARSE_ATTRIBUTE_CONFLICT   NTStatus = 0xC00002b2
	STATUS_REPARSE_POINT_ENCOUNTERED    NTStatus = 0xC000050b
)

// DiskFailures are the errors with which Windows reports that a disk, or the way to it, fails.
// ERROR_GEN_FAILURE is not one: it is also that of everything without a number of its own.
func DiskFailures() []Errno {
	return []Errno{ERROR_CRC, ERROR_SEEK, ERROR_SECTOR_NOT_FOUND, ERROR_WRITE_FAULT, ERROR_READ_FAULT, ERROR_DEVICE_HARDWARE_ERROR,
		ERROR_IO_DEVICE, ERROR_DISK_RECALIBRATE_FAILED, ERROR_DISK_OPERATION_FAILED, ERROR_DISK_RESET_FAILED}
}

// errnos has the name and the English system message of each Errno.
var errnos = []struct {
	number     Errno
	name, text string
}{
	{ERROR_INVALID_FUNCTION, "ERROR_INVALID_FUNCTION", "Incorrect function."},
	{ERROR_FILE_NOT_FOUND, "ERROR_FILE_NOT_FOUND", "The system cannot find the file specified."},
	{ERROR_PATH_NOT_FOUND, "ERROR_PATH_NOT_FOUND", "The system cannot find the path specified."},
	{ERROR_ACCESS_DENIED, "ERROR_ACCESS_DENIED", "Access is denied."},
	{ERROR_INVALID_HANDLE, "ERROR_INVALID_HANDLE", "The handle is invalid."},
	{ERROR_NOT_ENOUGH_MEMORY, "ERROR_NOT_ENOUGH_MEMORY", "Not enough memory resources are available to process this command."},
	{ERROR_INVALID_DRIVE, "ERROR_INVALID_DRIVE", "The system cannot find the drive specified."},
	{ERROR_NOT_SAME_DEVICE, "ERROR_NOT_SAME_DEVICE", "The system cannot move the file to a different disk drive."},
	{ERROR_NO_MORE_FILES, "ERROR_NO_MORE_FILES", "There are no more files."},
	{ERROR_WRITE_PROTECT, "ERROR_WRITE_PROTECT", "The media is write protected."},
	{ERROR_NOT_READY, "ERROR_NOT_READY", "The device is not ready."},
	{ERROR_CRC, "ERROR_CRC", "Data error (cyclic redundancy check)."},
	{ERROR_BAD_LENGTH, "ERROR_BAD_LENGTH", "The program issued a command but the command length is incorrect."},
	{ERROR_SEEK, "ERROR_SEEK", "The drive cannot locate a specific area or track on the disk."},
	{ERROR_SECTOR_NOT_FOUND, "ERROR_SECTOR_NOT_FOUND", "The drive cannot find the sector requested."},
	{ERROR_WRITE_FAULT, "ERROR_WRITE_FAULT", "The system cannot write to the specified device."},
	{ERROR_READ_FAULT, "ERROR_READ_FAULT", "The system cannot read from the specified device."},
	{ERROR_GEN_FAILURE, "ERROR_GEN_FAILURE", "A device attached to the system is not functioning."},
	{ERROR_SHARING_VIOLATION, "ERROR_SHARING_VIOLATION", "The process cannot access the file because it is being used by another process."},
	{ERROR_HANDLE_EOF, "ERROR_HANDLE_EOF", "Reached the end of the file."},
	{ERROR_NOT_SUPPORTED, "ERROR_NOT_SUPPORTED", "The request is not supported."},
	{ERROR_REM_NOT_LIST, "ERROR_REM_NOT_LIST", "Windows cannot find the network path. Verify that the network path is correct and the destination computer is not busy or turned off. If Windows still cannot find the network path, contact your network administrator."},
	{ERROR_BAD_NETPATH, "ERROR_BAD_NETPATH", "The network path was not found."},
	{ERROR_DEV_NOT_EXIST, "ERROR_DEV_NOT_EXIST", "The specified network resource or device is no longer available."},
	{ERROR_UNEXP_NET_ERR, "ERROR_UNEXP_NET_ERR", "An unexpected network error occurred."},
	{ERROR_NETNAME_DELETED, "ERROR_NETNAME_DELETED", "The specified network name is no longer available."},
	{ERROR_NETWORK_ACCESS_DENIED, "ERROR_NETWORK_ACCESS_DENIED", "Network access is denied."},
	{ERROR_BAD_NET_NAME, "ERROR_BAD_NET_NAME", "The network name cannot be found."},
	{ERROR_FILE_EXISTS, "ERROR_FILE_EXISTS", "The file exists."},
	{ERROR_ALREADY_ASSIGNED, "ERROR_ALREADY_ASSIGNED", "The local device name is already in use."},
	{ERROR_INVALID_PASSWORD, "ERROR_INVALID_PASSWORD", "The specified network password is not correct."},
	{ERROR_INVALID_PARAMETER, "ERROR_INVALID_PARAMETER", "The parameter is incorrect."},
	{ERROR_DISK_FULL, "ERROR_DISK_FULL", "There is not enough space on the disk."},
	{ERROR_CALL_NOT_IMPLEMENTED, "ERROR_CALL_NOT_IMPLEMENTED", "This function is not supported on this system."},
	{ERROR_SEM_TIMEOUT, "ERROR_SEM_TIMEOUT", "The semaphore timeout period has expired."},
	{ERROR_INSUFFICIENT_BUFFER, "ERROR_INSUFFICIENT_BUFFER", "The data area passed to a system call is too small."},
	{ERROR_INVALID_NAME, "ERROR_INVALID_NAME", "The filename, directory name, or volume label syntax is incorrect."},
	{ERROR_INVALID_LEVEL, "ERROR_INVALID_LEVEL", "The system call level is not correct."},
	{ERROR_DIR_NOT_ROOT, "ERROR_DIR_NOT_ROOT", "The directory is not the root directory."},
	{ERROR_DIR_NOT_EMPTY, "ERROR_DIR_NOT_EMPTY", "The directory is not empty."},
	{ERROR_BAD_PATHNAME, "ERROR_BAD_PATHNAME", "The specified path is invalid."},
	{ERROR_BUSY, "ERROR_BUSY", "The requested resource is in use."},
	{ERROR_ALREADY_EXISTS, "ERROR_ALREADY_EXISTS", "Cannot create a file when that file already exists."},
	{ERROR_FILENAME_EXCED_RANGE, "ERROR_FILENAME_EXCED_RANGE", "The filename or extension is too long."},
	{ERROR_MORE_DATA, "ERROR_MORE_DATA", "More data is available."},
	{ERROR_DIRECTORY, "ERROR_DIRECTORY", "The directory name is invalid."},
	{ERROR_DELETE_PENDING, "ERROR_DELETE_PENDING", "The file cannot be opened because it is in the process of being deleted."},
	{ERROR_NO_SUCH_DEVICE, "ERROR_NO_SUCH_DEVICE", "A device which does not exist was specified."},
	{ERROR_DEVICE_HARDWARE_ERROR, "ERROR_DEVICE_HARDWARE_ERROR", "The request failed due to a fatal device hardware error."},
	{ERROR_UNRECOGNIZED_VOLUME, "ERROR_UNRECOGNIZED_VOLUME", "The volume does not contain a recognized file system. Please make sure that all required file system drivers are loaded and that the volume is not corrupted."},
	{ERROR_DEPENDENT_SERVICES_RUNNING, "ERROR_DEPENDENT_SERVICES_RUNNING", "A stop control has been sent to a service that other running services are dependent on."},
	{ERROR_INVALID_SERVICE_CONTROL, "ERROR_INVALID_SERVICE_CONTROL", "The requested control is not valid for this service."},
	{ERROR_SERVICE_REQUEST_TIMEOUT, "ERROR_SERVICE_REQUEST_TIMEOUT", "The service did not respond to the start or control request in a timely fashion."},
	{ERROR_SERVICE_DATABASE_LOCKED, "ERROR_SERVICE_DATABASE_LOCKED", "The service database is locked."},
	{ERROR_SERVICE_ALREADY_RUNNING, "ERROR_SERVICE_ALREADY_RUNNING", "An instance of the service is already running."},
	{ERROR_SERVICE_DISABLED, "ERROR_SERVICE_DISABLED", "The service cannot be started, either because it is disabled or because it has no enabled devices associated with it."},
	{ERROR_CIRCULAR_DEPENDENCY, "ERROR_CIRCULAR_DEPENDENCY", "Circular service dependency was specified."},
	{ERROR_SERVICE_DOES_NOT_EXIST, "ERROR_SERVICE_DOES_NOT_EXIST", "The specified service does not exist as an installed service."},
	{ERROR_SERVICE_CANNOT_ACCEPT_CTRL, "ERROR_SERVICE_CANNOT_ACCEPT_CTRL", "The service cannot accept control messages at this time."},
	{ERROR_SERVICE_NOT_ACTIVE, "ERROR_SERVICE_NOT_ACTIVE", "The service has not been started."},
	{ERROR_EXCEPTION_IN_SERVICE, "ERROR_EXCEPTION_IN_SERVICE", "An exception occurred in the service when handling the control request."},
	{ERROR_SERVICE_SPECIFIC_ERROR, "ERROR_SERVICE_SPECIFIC_ERROR", "The service has returned a service-specific error code."},
	{ERROR_PROCESS_ABORTED, "ERROR_PROCESS_ABORTED", "The process terminated unexpectedly."},
	{ERROR_SERVICE_DEPENDENCY_FAIL, "ERROR_SERVICE_DEPENDENCY_FAIL", "The dependency service or group failed to start."},
	{ERROR_SERVICE_LOGON_FAILED, "ERROR_SERVICE_LOGON_FAILED", "The service did not start due to a logon failure."},
	{ERROR_SERVICE_MARKED_FOR_DELETE, "ERROR_SERVICE_MARKED_FOR_DELETE", "The specified service has been marked for deletion."},
	{ERROR_MEDIA_CHANGED, "ERROR_MEDIA_CHANGED", "The media in the drive may have changed."},
	{ERROR_IO_DEVICE, "ERROR_IO_DEVICE", "The request could not be performed because of an I/O device error."},
	{ERROR_DISK_RECALIBRATE_FAILED, "ERROR_DISK_RECALIBRATE_FAILED", "While accessing the hard disk, a recalibrate operation failed, even after retries."},
	{ERROR_DISK_OPERATION_FAILED, "ERROR_DISK_OPERATION_FAILED", "While accessing the hard disk, a disk operation failed even after retries."},
	{ERROR_DISK_RESET_FAILED, "ERROR_DISK_RESET_FAILED", "While accessing the hard disk, a disk controller reset was needed, but even that failed."},
	{ERROR_NOT_ENOUGH_SERVER_MEMORY, "ERROR_NOT_ENOUGH_SERVER_MEMORY", "Not enough server memory resources are available to process this command."},
	{ERROR_DEVICE_NOT_CONNECTED, "ERROR_DEVICE_NOT_CONNECTED", "The device is not connected."},
	{ERROR_NOT_FOUND, "ERROR_NOT_FOUND", "Element not found."},
	{ERROR_SESSION_CREDENTIAL_CONFLICT, "ERROR_SESSION_CREDENTIAL_CONFLICT", "Multiple connections to a server or shared resource by the same user, using more than one user name, are not allowed. Disconnect all previous connections to the server or shared resource and try again."},
	{ERROR_CONNECTION_REFUSED, "ERROR_CONNECTION_REFUSED", "The remote computer refused the network connection."},
	{ERROR_NETWORK_UNREACHABLE, "ERROR_NETWORK_UNREACHABLE", "The network location cannot be reached. For information about network troubleshooting, see Windows Help."},
	{ERROR_HOST_UNREACHABLE, "ERROR_HOST_UNREACHABLE", "The network location cannot be reached. For information about network troubleshooting, see Windows Help."},
	{ERROR_NO_LOGON_SERVERS, "ERROR_NO_LOGON_SERVERS", "We can't sign you in with this credential because your domain isn't available. Make sure your device is connected to your organization's network and try again. If you previously signed in on this device with another credential, you can sign in with that credential."},
	{ERROR_NO_SUCH_LOGON_SESSION, "ERROR_NO_SUCH_LOGON_SESSION", "A specified logon session does not exist. It may already have been terminated."},
	{ERROR_PRIVILEGE_NOT_HELD, "ERROR_PRIVILEGE_NOT_HELD", "A required privilege is not held by the client."},
	{ERROR_LOGON_FAILURE, "ERROR_LOGON_FAILURE", "The user name or password is incorrect."},
	{ERROR_ACCOUNT_RESTRICTION, "ERROR_ACCOUNT_RESTRICTION", "Account restrictions are preventing this user from signing in."},
	{ERROR_PASSWORD_EXPIRED, "ERROR_PASSWORD_EXPIRED", "The password for this account has expired."},
	{ERROR_ACCOUNT_DISABLED, "ERROR_ACCOUNT_DISABLED", "This user can't sign in because this account is currently disabled."},
	{ERROR_INVALID_SECURITY_DESCR, "ERROR_INVALID_SECURITY_DESCR", "The security descriptor structure is invalid."},
	{ERROR_FILE_CORRUPT, "ERROR_FILE_CORRUPT", "The file or directory is corrupted and unreadable."},
	{ERROR_DISK_CORRUPT, "ERROR_DISK_CORRUPT", "The disk structure is corrupted and unreadable."},
	{ERROR_NO_SYSTEM_RESOURCES, "ERROR_NO_SYSTEM_RESOURCES", "Insufficient system resources exist to complete the requested service."},
	{ERROR_TIMEOUT, "ERROR_TIMEOUT", "This operation returned because the timeout period expired."},
	{ERROR_SYMLINK_CLASS_DISABLED, "ERROR_SYMLINK_CLASS_DISABLED", "The symbolic link cannot be followed because its type is disabled."},
	{ERROR_DEVICE_REMOVED, "ERROR_DEVICE_REMOVED", "The device has been removed."},
	{RPC_S_UNKNOWN_IF, "RPC_S_UNKNOWN_IF", "The interface is unknown."},
	{RPC_S_SERVER_UNAVAILABLE, "RPC_S_SERVER_UNAVAILABLE", "The RPC server is unavailable."},
	{ERROR_PASSWORD_MUST_CHANGE, "ERROR_PASSWORD_MUST_CHANGE", "The user's password must be changed before signing in."},
	{ERROR_ACCOUNT_LOCKED_OUT, "ERROR_ACCOUNT_LOCKED_OUT", "The referenced account is currently locked out and may not be logged on to."},
	{ERROR_CANT_ACCESS_FILE, "ERROR_CANT_ACCESS_FILE", "The file cannot be accessed by the system."},
	{ERROR_CANT_RESOLVE_FILENAME, "ERROR_CANT_RESOLVE_FILENAME", "The name of the file cannot be resolved by the system."},
	{NERR_WkstaNotStarted, "NERR_WkstaNotStarted", "The Workstation service has not been started."},
	{ERROR_NOT_CONNECTED, "ERROR_NOT_CONNECTED", "This network connection does not exist."},
	{ERROR_NOT_A_REPARSE_POINT, "ERROR_NOT_A_REPARSE_POINT", "The file or directory is not a reparse point."},
	{ERROR_REPARSE_ATTRIBUTE_CONFLICT, "ERROR_REPARSE_ATTRIBUTE_CONFLICT", "The reparse point attribute cannot be set because it conflicts with an existing attribute."},
	{ERROR_INVALID_REPARSE_DATA, "ERROR_INVALID_REPARSE_DATA", "The data present in the reparse point buffer is invalid."},
	{ERROR_REPARSE_TAG_INVALID, "ERROR_REPARSE_TAG_INVALID", "The tag present in the reparse point buffer is invalid."},
	{ERROR_REPARSE_TAG_MISMATCH, "ERROR_REPARSE_TAG_MISMATCH", "There is a mismatch between the tag specified in the request and the tag present in the reparse point."},
	{ERROR_REPARSE_POINT_ENCOUNTERED, "ERROR_REPARSE_POINT_ENCOUNTERED", "The object manager encountered a reparse point while retrieving an object."},
}

// errnoText returns the name and the English system message of an Errno.
func errnoText(e Errno) (name, text string) {
	for _, row := range errnos {
		if row.number == e {
			return row.name, row.text
		}
	}
	return fmt.Sprintf("ERROR_%d", uint32(e)), fmt.Sprintf("Windows error %d.", uint32(e))
}

// statuses has the name of each NTStatus, and the Errno that RtlNtStatusToDosError converts it to.
var statuses = []struct {
	number NTStatus
	name   string
	errno  Errno
}{
	{STATUS_BUFFER_OVERFLOW, "STATUS_BUFFER_OVERFLOW", ERROR_MORE_DATA},
	{STATUS_NO_MORE_FILES, "STATUS_NO_MORE_FILES", ERROR_NO_MORE_FILES},
	{STATUS_NOT_IMPLEMENTED, "STATUS_NOT_IMPLEMENTED", ERROR_INVALID_FUNCTION},
	{STATUS_INVALID_INFO_CLASS, "STATUS_INVALID_INFO_CLASS", ERROR_INVALID_PARAMETER},
	{STATUS_INFO_LENGTH_MISMATCH, "STATUS_INFO_LENGTH_MISMATCH", ERROR_BAD_LENGTH},
	{STATUS_INVALID_HANDLE, "STATUS_INVALID_HANDLE", ERROR_INVALID_HANDLE},
	{STATUS_INVALID_PARAMETER, "STATUS_INVALID_PARAMETER", ERROR_INVALID_PARAMETER},
	{STATUS_NO_SUCH_DEVICE, "STATUS_NO_SUCH_DEVICE", ERROR_NO_SUCH_DEVICE}, // ERROR_FILE_NOT_FOUND before Windows 8
	{STATUS_NO_SUCH_FILE, "STATUS_NO_SUCH_FILE", ERROR_FILE_NOT_FOUND},
	{STATUS_INVALID_DEVICE_REQUEST, "STATUS_INVALID_DEVICE_REQUEST", ERROR_INVALID_FUNCTION},
	{STATUS_ACCESS_DENIED, "STATUS_ACCESS_DENIED", ERROR_ACCESS_DENIED},
	{STATUS_BUFFER_TOO_SMALL, "STATUS_BUFFER_TOO_SMALL", ERROR_INSUFFICIENT_BUFFER},
	{STATUS_DISK_CORRUPT_ERROR, "STATUS_DISK_CORRUPT_ERROR", ERROR_DISK_CORRUPT},
	{STATUS_OBJECT_NAME_INVALID, "STATUS_OBJECT_NAME_INVALID", ERROR_INVALID_NAME},
	{STATUS_OBJECT_NAME_NOT_FOUND, "STATUS_OBJECT_NAME_NOT_FOUND", ERROR_FILE_NOT_FOUND},
	{STATUS_OBJECT_NAME_COLLISION, "STATUS_OBJECT_NAME_COLLISION", ERROR_ALREADY_EXISTS},
	{STATUS_OBJECT_PATH_INVALID, "STATUS_OBJECT_PATH_INVALID", ERROR_BAD_PATHNAME},
	{STATUS_OBJECT_PATH_NOT_FOUND, "STATUS_OBJECT_PATH_NOT_FOUND", ERROR_PATH_NOT_FOUND},
	{STATUS_OBJECT_PATH_SYNTAX_BAD, "STATUS_OBJECT_PATH_SYNTAX_BAD", ERROR_BAD_PATHNAME},
	{STATUS_SHARING_VIOLATION, "STATUS_SHARING_VIOLATION", ERROR_SHARING_VIOLATION},
	{STATUS_DELETE_PENDING, "STATUS_DELETE_PENDING", ERROR_ACCESS_DENIED},
	{STATUS_PRIVILEGE_NOT_HELD, "STATUS_PRIVILEGE_NOT_HELD", ERROR_PRIVILEGE_NOT_HELD},
	{STATUS_LOGON_FAILURE, "STATUS_LOGON_FAILURE", ERROR_LOGON_FAILURE},
	{STATUS_INVALID_SECURITY_DESCR, "STATUS_INVALID_SECURITY_DESCR", ERROR_INVALID_SECURITY_DESCR},
	{STATUS_DISK_FULL, "STATUS_DISK_FULL", ERROR_DISK_FULL},
	{STATUS_INSUFFICIENT_RESOURCES, "STATUS_INSUFFICIENT_RESOURCES", ERROR_NO_SYSTEM_RESOURCES},
	{STATUS_MEDIA_WRITE_PROTECTED, "STATUS_MEDIA_WRITE_PROTECTED", ERROR_WRITE_PROTECT},
	{STATUS_DEVICE_NOT_READY, "STATUS_DEVICE_NOT_READY", ERROR_NOT_READY},
	{STATUS_IO_TIMEOUT, "STATUS_IO_TIMEOUT", ERROR_SEM_TIMEOUT},
	{STATUS_FILE_IS_A_DIRECTORY, "STATUS_FILE_IS_A_DIRECTORY", ERROR_ACCESS_DENIED},
	{STATUS_NOT_SUPPORTED, "STATUS_NOT_SUPPORTED", ERROR_NOT_SUPPORTED},
	{STATUS_BAD_NETWORK_PATH, "STATUS_BAD_NETWORK_PATH", ERROR_BAD_NETPATH},
	{STATUS_UNEXPECTED_NETWORK_ERROR, "STATUS_UNEXPECTED_NETWORK_ERROR", ERROR_UNEXP_NET_ERR},
	{STATUS_NETWORK_NAME_DELETED, "STATUS_NETWORK_NAME_DELETED", ERROR_NETNAME_DELETED},
	{STATUS_BAD_NETWORK_NAME, "STATUS_BAD_NETWORK_NAME", ERROR_BAD_NET_NAME},
	{STATUS_NOT_SAME_DEVICE, "STATUS_NOT_SAME_DEVICE", ERROR_NOT_SAME_DEVICE},
	{STATUS_DIRECTORY_NOT_EMPTY, "STATUS_DIRECTORY_NOT_EMPTY", ERROR_DIR_NOT_EMPTY},
	{STATUS_NOT_A_DIRECTORY, "STATUS_NOT_A_DIRECTORY", ERROR_DIRECTORY},
	{STATUS_NAME_TOO_LONG, "STATUS_NAME_TOO_LONG", ERROR_FILENAME_EXCED_RANGE},
	{STATUS_CANNOT_DELETE, "STATUS_CANNOT_DELETE", ERROR_ACCESS_DENIED},
	{STATUS_FILE_DELETED, "STATUS_FILE_DELETED", ERROR_ACCESS_DENIED},
	{STATUS_UNRECOGNIZED_VOLUME, "STATUS_UNRECOGNIZED_VOLUME", ERROR_UNRECOGNIZED_VOLUME},
	{STATUS_IO_DEVICE_ERROR, "STATUS_IO_DEVICE_ERROR", ERROR_IO_DEVICE},
	{STATUS_VOLUME_DISMOUNTED, "STATUS_VOLUME_DISMOUNTED", ERROR_NOT_READY},
	{STATUS_NOT_A_REPARSE_POINT, "STATUS_NOT_A_REPARSE_POINT", ERROR_NOT_A_REPARSE_POINT},
	{STATUS_IO_REPARSE_TAG_MISMATCH, "STATUS_IO_REPARSE_TAG_MISMATCH", ERROR_REPARSE_TAG_MISMATCH},
	{STATUS_IO_REPARSE_TAG_INVALID, "STATUS_IO_REPARSE_TAG_INVALID", ERROR_REPARSE_TAG_INVALID},
	{STATUS_IO_REPARSE_DATA_INVALID, "STATUS_IO_REPARSE_DATA_INVALID", ERROR_INVALID_REPARSE_DATA},
	{STATUS_IO_REPARSE_TAG_NOT_HANDLED, "STATUS_IO_REPARSE_TAG_NOT_HANDLED", ERROR_CANT_ACCESS_FILE},
	{STATUS_REPARSE_POINT_NOT_RESOLVED, "STATUS_REPARSE_POINT_NOT_RESOLVED", ERROR_CANT_RESOLVE_FILENAME},
	{STATUS_DIRECTORY_IS_A_REPARSE_POINT, "STATUS_DIRECTORY_IS_A_REPARSE_POINT", ERROR_BAD_PATHNAME},
	{STATUS_REPARSE_ATTRIBUTE_CONFLICT, "STATUS_REPARSE_ATTRIBUTE_CONFLICT", ERROR_REPARSE_ATTRIBUTE_CONFLICT},
	{STATUS_REPARSE_POINT_ENCOUNTERED, "STATUS_REPARSE_POINT_ENCOUNTERED", ERROR_REPARSE_POINT_ENCOUNTERED},
}

// statusInfo returns the name of an NTStatus and its Errno.
func statusInfo(s NTStatus) (name string, e Errno, known bool) {
	for _, row := range statuses {
		if row.number == s {
			return row.name, row.errno, true
		}
	}
	return fmt.Sprintf("STATUS_0x%08X", uint32(s)), 0, false
}

// Name returns the constant's name in winerror.h, "ERROR_ACCESS_DENIED".
func (e Errno) Name() string { name, _ := errnoText(e); return name }

// Error returns Windows' English message for e, for a Windows in any language.
func (e Errno) Error() string { _, text := errnoText(e); return text }

// Is makes errors.Is match fs.ErrNotExist, fs.ErrExist, fs.ErrPermission and
// errors.ErrUnsupported, as package os does for the same numbers.
func (e Errno) Is(target error) bool {
	switch target {
	case fs.ErrNotExist:
		return e == ERROR_FILE_NOT_FOUND || e == ERROR_PATH_NOT_FOUND || e == ERROR_BAD_NETPATH
	case fs.ErrExist:
		return e == ERROR_ALREADY_EXISTS || e == ERROR_FILE_EXISTS || e == ERROR_DIR_NOT_EMPTY
	case fs.ErrPermission:
		return e == ERROR_ACCESS_DENIED
	case errors.ErrUnsupported:
		return e == ERROR_NOT_SUPPORTED || e == ERROR_CALL_NOT_IMPLEMENTED || e == ERROR_INVALID_FUNCTION
	}
	return false
}

// Name returns the constant's name in ntstatus.h, "STATUS_ACCESS_DENIED".
func (s NTStatus) Name() string { name, _, _ := statusInfo(s); return name }

// Errno returns the number that RtlNtStatusToDosError converts s to. For a status
// that this package does not know it returns ERROR_GEN_FAILURE.
func (s NTStatus) Errno() Errno {
	if _, e, ok := statusInfo(s); ok {
		return e
	}
	return ERROR_GEN_FAILURE
}

// Error returns the message of s.Errno. For a status that this package does not
// know it returns "NTSTATUS" and the number.
func (s NTStatus) Error() string {
	name, e, ok := statusInfo(s)
	if !ok {
		return "NTSTATUS " + name
	}
	return e.Error()
}

// Is matches what s.Errno matches.
func (s NTStatus) Is(target error) bool {
	if e, ok := target.(Errno); ok {
		_, have, known := statusInfo(s)
		return known && have == e
	}
	return s.Errno().Is(target)
}

// Code returns the Win32 error number of err: an Errno, the one that an NTStatus
// maps to, or the closest one to an ISCSIStatus.
func Code(err error) (Errno, bool) {
	if err == nil {
		return 0, false
	}
	var e Errno
	if errors.As(err, &e) {
		return e, true
	}
	var s NTStatus
	if errors.As(err, &s) {
		return s.Errno(), true
	}
	var i ISCSIStatus
	if errors.As(err, &i) {
		_, _, e := iscsiStatusInfo(i)
		return e, e != 0
	}
	return 0, false
}

// IsCode reports whether err has one of the Win32 error numbers, itself or as an
// NTSTATUS that maps to one.
func IsCode(err error, codes ...Errno) bool {
	have, ok := Code(err)
	if !ok {
		return false
	}
	for _, c := range codes {
		if have == c {
			return true
		}
	}
	return false
}
