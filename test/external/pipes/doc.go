// Package pipes is the part of the module that goes through pipes. It is a package of its
// own so that it runs at the same time as the part in process: both mostly wait.
package pipes
