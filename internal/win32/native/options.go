package native

// Options are what a program says about itself and how it wants things done.
type Options struct {
	// FormatHelper is the path of the program's own executable if, like
	// csi-proxy.exe, it becomes the format helper when its first argument says so
	// (package fmifs). Empty for any other program: then nothing starts a process.
	FormatHelper string
}
