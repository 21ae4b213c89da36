// Package images lets a program that knows nothing of this project judge what
// it writes to disks: sgdisk, over the image files of a simulated node.
package images
