package pipe

import "fmt"

// OwnerVariable is the environment variable that turns off the check of [DialTrusted], if
// its value is "any".
const OwnerVariable = "CSI_PROXY_PIPE_OWNER"

// OwnerError is the error of [DialTrusted] for a pipe that another account owns.
type OwnerError struct {
	Path  string
	Owner string // a SID
}

// Error names the owner, and how to turn off the check.
func (e *OwnerError) Error() string {
	return fmt.Sprintf("%q is owned by %s, not by LocalSystem, administrators or this account, so it is not used: another program may have taken the name of CSI Proxy's pipe; "+
		"if CSI Proxy runs as that account, set %s=any", e.Path, e.Owner, OwnerVariable)
}
