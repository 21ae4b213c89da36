// Package rules holds the project to its structure: who may import whom, where
// Windows begins, where the only fake stands, and which Go version a driver
// needs. Each rule is a test with its reason.
package rules
