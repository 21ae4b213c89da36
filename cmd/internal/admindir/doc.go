// Package admindir makes directories that only administrators may change, and finds those
// that others may.
package admindir
