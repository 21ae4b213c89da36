//go:build !race

package daemon_test

const underRace = false
