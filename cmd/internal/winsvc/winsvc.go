// Package winsvc runs a program under the Windows Service Control Manager.
//
// The service is reported as running once the program says that it is ready,
// so whoever starts it and waits, or depends on it, finds it serving. A stop
// asks the program to end and is reported as done when it has ended: calls that
// are under way finish first.
//
// Whether a process is a service is told by a flag and not guessed: a console
// in a container looks like a service to the functions that guess.
package winsvc

import "context"

// Program is what a service runs. It calls ready once it does its work, ends
// soon after ctx does, and returns the exit code of the process.
type Program func(ctx context.Context, ready func()) int
