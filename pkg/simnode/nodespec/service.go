package nodespec

// Service is a Windows service. Its life is a table of delays: no program runs
// behind it, except that MSiSCSI answers the calls of the iSCSI initiator.
type Service struct {
	// Name is the key name, as "MSiSCSI"; upper and lower case are the same.
	Name        string `json:"name"`
	DisplayName string `json:"displayName,omitempty"` // empty means Name
	// StartType is "boot", "system", "auto", "manual" (the default) or "disabled".
	StartType string `json:"startType,omitempty"`
	// State is "running", "stopped" or "paused" at first; empty means running
	// for a service that Windows starts by itself, else stopped.
	State string `json:"state,omitempty"`
	// DependsOn are services that must run for this one to run.
	DependsOn []string `json:"dependsOn,omitempty"`
	// StartDelay and StopDelay are how long the pending states last.
	StartDelay Duration `json:"startDelay,omitempty"`
	StopDelay  Duration `json:"stopDelay,omitempty"`
	// WaitHint is the estimate that the service reports while it is pending. Its
	// check point grows four times in that time.
	WaitHint Duration `json:"waitHint,omitempty"`
	// StartError is the Win32 error number with which a start fails, as 1069 for
	// an account that cannot log on.
	StartError uint32 `json:"startError,omitempty"`
	// Dies makes the service end with this Win32 error number instead of
	// running, once StartDelay is over, as 1067 for a process that crashes.
	Dies uint32 `json:"dies,omitempty"`
	// RefusesStop makes it accept no stop (ERROR_INVALID_SERVICE_CONTROL).
	RefusesStop bool `json:"refusesStop,omitempty"`
	// Hangs keeps it "start" or "stop" pending for good, without progress.
	Hangs string `json:"hangs,omitempty"`
}
