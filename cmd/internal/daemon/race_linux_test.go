//go:build race

package daemon_test

// underRace tells that memory is that of the race detector, many times the
// program's own.
const underRace = true
