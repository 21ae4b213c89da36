// Package roads follows eight public CSI drivers over simulated nodes.
//
// A driver does not only call methods. It looks at what they return: it searches
// an error for a text, compares a serial number with a volume ID, skips a step if a
// directory is a link. Here each driver is a value with functions that make the same
// calls and the same decisions, written for this test from what its public code does
// at the commit that it names. None of its code is copied.
//
// roads_test.go takes each driver through the life of a volume: stage, publish, stats, expand,
// unpublish, unstage. It does so through the pipes of every version that the driver
// falls back to and in process, with each step repeated, with each response lost
// once, in the wrong order, and over restarts of Windows; lost responses are combined
// with restarts.
//
// results_test.go has what each road notes, and why the driver does so.
package roads
