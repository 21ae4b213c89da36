// Package testbed has what csi-proxy-verify makes on a real Windows: virtual disks and services of
// their own. It is empty on other systems, which have the simulated node instead.
package testbed

// IdleService is the first argument with which the service manager starts this program
// as a service of Services, which does nothing; the second one is its name.
const IdleService = "idle-service"
