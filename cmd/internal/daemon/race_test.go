//go:build race

package daemon_test

// underRace means that the race detector is enabled, which needs many times the memory.
const underRace = true
