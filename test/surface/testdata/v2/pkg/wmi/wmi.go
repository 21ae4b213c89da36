// Package wmi stands for more than a hundred published functions and methods over
// COM objects, of which these are some.
package wmi

type (
	COMDispatchObject struct{}
	Scope             struct{}
	QueryBuilder      struct{}
	WMIError          struct{}
)

var ErrNotFound error

func IsNotFound(err error) bool
