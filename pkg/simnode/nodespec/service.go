package nodespec

// Service is a Windows service. It has states and delays, but runs no program. Calls of the
// iSCSI initiator need MSiSCSI to run.
type Service struct {
	// Name is the key name, such as "MSiSCSI". Case is ignored.
	Name        string `json:"name"`
	DisplayName string `json:"displayName,omitempty"` // empty means Name
	// StartType is "boot", "system", "auto", "manual" (the default) or "disabled".
	StartType string `json:"startType,omitempty"`
	// State is the initial state: "running", "stopped" or "paused". Empty means running
	// for a service that Windows starts automatically, and stopped otherwise.
	State string `json:"state,omitempty"`
	// DependsOn are the services that must run before this one can run.
	DependsOn []string `json:"dependsOn,omitempty"`
	// StartDelay and StopDelay are how long the pending states last.
	StartDelay Duration `json:"startDelay,omitempty"`
	StopDelay  Duration `json:"stopDelay,omitempty"`
	// WaitHint is the estimate that the service reports while it is pending. It increases
	// its check point four times in that time.
	WaitHint Duration `json:"waitHint,omitempty"`
	// StartError is the Win32 error number that a start fails with, such as 1069 for an
	// account that cannot log on.
	StartError uint32 `json:"startError,omitempty"`
	// Dies makes the service stop with this Win32 error number after StartDelay instead
	// of running, such as 1067 for a process that crashes.
	Dies uint32 `json:"dies,omitempty"`
	// RefusesStop makes the service refuse to stop (ERROR_INVALID_SERVICE_CONTROL).
	RefusesStop bool `json:"refusesStop,omitempty"`
	// Hangs keeps the service in the state "start" or "stop" pending without progress.
	Hangs string `json:"hangs,omitempty"`
}
