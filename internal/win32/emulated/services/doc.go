// Package services is the emulated node's service control manager: services with states,
// including pending ones, dependents, start types and failures.
//
// It does not model the work of services, except that the iSCSI initiator works only while
// its service runs. A pending state ends by the clock alone.
package services
