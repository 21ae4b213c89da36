package win32

func (o *observed) UseAdd(u NewUse) error {
	return o.call(Call{Name: "UseAdd", Path: u.Remote, Code: u.Flags}, func(*Call) error { return o.api.UseAdd(u) })
}

func (o *observed) UseEnum() ([]Use, error) {
	return answer(o, Call{Name: "UseEnum"}, func() ([]Use, error) { return o.api.UseEnum() })
}

func (o *observed) UseDel(remote string) error {
	return o.call(Call{Name: "UseDel", Path: remote}, func(*Call) error { return o.api.UseDel(remote) })
}

func (o *observed) LogonToServer(server string, c Credentials) error {
	return o.call(Call{Name: "LogonToServer", Path: server}, func(*Call) error { return o.api.LogonToServer(server, c) })
}
