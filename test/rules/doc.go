// Package rules checks the structure of the project: which package may import
// which, where Windows-specific code is allowed, what replaces Windows in tests,
// and which Go version a driver needs. Each rule is a test with its reason.
package rules
