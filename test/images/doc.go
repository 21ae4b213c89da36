// Package images checks what is written to disks and what is not: sgdisk judges the
// partition tables on the images of a simulated node, and disks with content of Windows and
// of other systems keep it.
package images
