package shim

import "testing"

// A file that another program wrote is no address.
func TestListener(t *testing.T) {
	for text, want := range map[string]string{
		"40001 312.99\n":               "127.0.0.1:40001",
		"40001 312.99":                 "", // the program still writes
		"":                             "",
		"123 driver\n":                 "",
		"example.com:80 312.99\n":      "",
		"40001 312.99\n40002 312.99\n": "",
	} {
		if address, same := listener(text); address != want || (same != "") != (want != "") {
			t.Errorf("listener(%q) = %q, %q, want %q", text, address, same, want)
		}
	}
}
