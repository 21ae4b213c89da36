// Package limit bounds what the callers of a pipe can take from each other.
//
// Any container that has a pipe can call as often as it likes, and can misbehave. What callers
// share on a pipe has places: its connections and the calls that have begun. When all
// places are taken, a new one takes that of the process that has most. So a process that takes much
// loses first, and to itself, and a driver with a connection or two never loses to a process
// with many. Among processes with equally many, a connection that has no call makes room, the
// idlest first: it is closed, and its client connects again with its next call.
//
// A call that runs is never cut. Of those, there are few, because each may hold a thread in
// Windows, also after its caller has left. The next to run is a call of the process of which
// fewest run; with one or two, a process takes turns with those that have none, so that a long
// call does not keep out the others of its driver.
//
// Every pipe has its own limits, so a flood on one does not slow down another.
package limit
