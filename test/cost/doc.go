// Package cost counts the calls of Windows that each operation makes on nodes of different
// sizes, and fails if what one disk, volume or share costs grows with the node.
// The tables of operations have the counts.
//
// The counts are those of the simulated node. A method of win32.API counts as many calls as
// the native side makes for it.
package cost
