package win32

func (a *recorder) ServiceStatus(name string) (ServiceStatus, error) {
	a.record("ServiceStatus", name)
	return ServiceStatus{State: SERVICE_RUNNING}, a.err
}

func (a *recorder) ServiceConfig(name string) (ServiceConfig, error) {
	a.record("ServiceConfig", name)
	return ServiceConfig{DisplayName: "display name"}, a.err
}

func (a *recorder) StartService(name string) error { a.record("StartService", name); return a.err }

func (a *recorder) ControlService(name string, control uint32) (ServiceStatus, error) {
	a.record("ControlService", name, control)
	return ServiceStatus{State: SERVICE_STOP_PENDING}, a.err
}

func (a *recorder) DependentServices(name string) ([]DependentService, error) {
	a.record("DependentServices", name)
	return []DependentService{{Name: "dependent"}}, a.err
}

func (a *recorder) FirmwareTable() ([]byte, error) {
	a.record("FirmwareTable")
	return []byte("table"), a.err
}
