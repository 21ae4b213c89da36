// Package driver represents a driver in a repository of its own, which can import
// public packages only. Its tests run package conformance and stage a volume.
package driver
