// Package winsvc runs a program under the Windows Service Control Manager.
//
// The service is reported as running when the program is ready, so a caller that starts
// it and waits, or a service that depends on it, finds it serving. To stop the service,
// winsvc ends the context of the program, and reports it as stopped when the program has
// returned. Running calls finish first.
//
// The program runs as a service if a flag says so. Windows has functions to detect that, but
// they are wrong for a console in a container.
package winsvc

import "context"

// Program is the function that a service runs. It calls ready when it is serving, returns
// soon after ctx ends, and returns the exit code of the process.
type Program func(ctx context.Context, ready func()) int
