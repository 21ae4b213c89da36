package win32

// SMB is the set of calls for the global mappings of the node's SMB client
// (NetUseAdd, NetUseEnum and NetUseDel with USE_FLAG_GLOBAL_MAPPING). A share
// mapped here is open to every account of the node, with the credentials of the
// mapping.
//
// The flag is in Microsoft's lmuse.h, but on none of Microsoft's pages. None of
// this has run on Windows.
type SMB interface {
	// UseAdd maps a share. It returns when the server has accepted or refused.
	UseAdd(u NewUse) error
	// UseEnum lists the global mappings.
	UseEnum() ([]Use, error)
	// UseDel removes the global mapping of a share, and closes open files on the share
	// (USE_LOTS_OF_FORCE). The error is ERROR_NOT_CONNECTED if there is no such mapping.
	UseDel(remote string) error
}

// SMBLogon checks credentials at an SMB server.
type SMBLogon interface {
	// LogonToServer opens a session with the SMB server in a logon session of its own
	// and closes it. Mappings and other sessions of the node are not touched, and do
	// not matter. Without a user it connects with the node's own account. The error is
	// ERROR_LOGON_FAILURE or another reason of the server for refusing the
	// credentials, or a network error.
	LogonToServer(server string, c Credentials) error
}

// Credentials are those of a user at a server. An empty User means the node's own
// account.
type Credentials struct {
	User, Domain string
	Password     Secret
}

// NewUse is a new mapping (USE_INFO_3).
type NewUse struct {
	Remote string // `\\server\share`, without a trailing backslash
	// User, Domain and Password are the credentials. Without a User, the node
	// connects with its own account.
	User, Domain string
	Password     Secret
	Flags        uint32 // REQUIRE_CONNECTION_…
}

// Use is a global mapping (USE_INFO_2).
type Use struct {
	Remote       string
	Local        string // the drive "G:", or "" for a mapping without a letter
	User, Domain string // of its credentials; empty if Windows does not report them
	Status       uint32 // USE_OK …
	// Flags are those that the mapping was made with (REQUIRE_CONNECTION_…), unless FlagsUnknown
	// says that Windows does not report them.
	Flags        uint32
	FlagsUnknown bool
}

// Levels and flags of the NetUse functions (lmuse.h, lmuseflg.h).
const (
	USE_FLAG_GLOBAL_MAPPING = 0x10000 // added to the level

	// NewUse.Flags.
	REQUIRE_CONNECTION_INTEGRITY = 0x08 // signing
	REQUIRE_CONNECTION_PRIVACY   = 0x10 // encryption, which needs SMB 3

	USE_NOFORCE       = 0
	USE_LOTS_OF_FORCE = 2

	// Use.Status.
	USE_OK      = 0
	USE_PAUSED  = 1
	USE_DISCONN = 2
	USE_NETERR  = 3
	USE_CONN    = 4 // connecting
	USE_RECONN  = 5 // reconnecting
)
