package win32

func (o *observed) UseAdd(u NewUse) error {
	return o.call(Call{Name: "UseAdd", Path: u.Remote, Code: u.Flags}, func(*Call) error { return o.api.UseAdd(u) })
}

func (o *observed) UseEnum() (uses []Use, err error) {
	err = o.call(Call{Name: "UseEnum"}, func(*Call) (err error) {
		uses, err = o.api.UseEnum()
		return err
	})
	return uses, err
}

func (o *observed) UseDel(remote string, force uint32) error {
	return o.call(Call{Name: "UseDel", Path: remote}, func(*Call) error { return o.api.UseDel(remote, force) })
}

func (o *observed) LogonToServer(server string, c Credentials) error {
	return o.call(Call{Name: "LogonToServer", Path: server}, func(*Call) error { return o.api.LogonToServer(server, c) })
}
