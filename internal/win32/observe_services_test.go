package win32

func (a *answers) ServiceStatus(name string) (ServiceStatus, error) {
	a.note("ServiceStatus", name)
	return ServiceStatus{State: SERVICE_RUNNING}, a.err
}

func (a *answers) ServiceConfig(name string) (ServiceConfig, error) {
	a.note("ServiceConfig", name)
	return ServiceConfig{DisplayName: "display name"}, a.err
}

func (a *answers) StartService(name string) error { a.note("StartService", name); return a.err }

func (a *answers) ControlService(name string, control uint32) (ServiceStatus, error) {
	a.note("ControlService", name, control)
	return ServiceStatus{State: SERVICE_STOP_PENDING}, a.err
}

func (a *answers) DependentServices(name string, state uint32) ([]DependentService, error) {
	a.note("DependentServices", name, state)
	return []DependentService{{Name: "dependent"}}, a.err
}

func (a *answers) FirmwareTable(provider, id uint32) ([]byte, error) {
	a.note("FirmwareTable", provider, id)
	return []byte("table"), a.err
}
