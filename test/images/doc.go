// Package images checks partition tables with an independent program: it runs
// sgdisk on the disk images of a simulated node.
package images
