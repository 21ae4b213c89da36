package smb

import (
	"testing"

	smbapi "github.com/kubernetes-csi/csi-proxy/v2/pkg/smb/hostapi"
)

// Whatever the state: a mapping is replaced only after the server has accepted the
// credentials, or if it cannot be asked and nothing is lost. It is asked at most once, and not
// about what is known. A mapping that pods use is neither given to another user nor made again for
// more protection, unless it is broken or lost.
func TestNext(t *testing.T) {
	seen := map[action]bool{}
	for s := absent; s <= missing; s++ {
		for o := own; o <= foreign; o++ {
			for u := unused; u <= others; u++ {
				for _, enough := range []bool{false, true} {
					for a := smbapi.Unasked; a <= smbapi.CannotAsk; a++ {
						do := next(s, o, u, enough, a)
						seen[do] = true
						alive := s == works || s == doubtful || s == silent
						theirs := alive && (o == foreign && u == others || !enough && u != unused)
						ok := true
						switch do {
						case add:
							ok = s == absent
						case keep:
							ok = enough && (s == works && o == own || a == smbapi.CannotAsk && o != foreign && u != unused && (s == works || s == doubtful))
						case ask:
							ok = a == smbapi.Unasked && !theirs
						case adopt:
							ok = a == smbapi.Accepted && s == works && o == maybe && u != unused && enough
						case replace:
							ok = !theirs && (a == smbapi.Accepted || a == smbapi.CannotAsk && (s == lost || u == unused && s != silent && s != broken))
						case deny:
							ok = theirs || o == foreign && u != unused
						case fail:
							ok = s == missing || a == smbapi.Refused || a == smbapi.NoAnswer || a == smbapi.CannotAsk && (s == silent || s == broken)
						}
						if !ok {
							t.Errorf("next(%d, %d, %d, %t, %d) = %d", s, o, u, enough, a, do)
						}
					}
				}
			}
		}
	}
	if len(seen) != int(fail)+1 {
		t.Errorf("only the actions %v occur", seen)
	}
}
