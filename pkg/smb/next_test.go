package smb

import (
	"testing"

	smbapi "github.com/kubernetes-csi/csi-proxy/v2/pkg/smb/hostapi"
)

// Whatever the state: a mapping is replaced only after the server has accepted the
// credentials, or if it cannot be asked and nothing is lost. It is asked at most once, and not
// about what is known. A mapping that pods use is not given to another user, unless it is broken or
// lost.
func TestNext(t *testing.T) {
	seen := map[action]bool{}
	for s := absent; s <= missing; s++ {
		for o := own; o <= foreign; o++ {
			for u := unused; u <= others; u++ {
				for a := smbapi.Unasked; a <= smbapi.CannotAsk; a++ {
					do := next(s, o, u, a)
					seen[do] = true
					ok := true
					switch do {
					case add:
						ok = s == absent
					case keep:
						ok = s == works && o == own || a == smbapi.CannotAsk && o != foreign && u != unused && (s == works || s == doubtful)
					case ask:
						ok = a == smbapi.Unasked
					case adopt:
						ok = a == smbapi.Accepted && s == works && o == maybe && u != unused
					case replace:
						ok = a == smbapi.Accepted && !(o == foreign && u == others && (s == works || s == doubtful || s == silent)) ||
							a == smbapi.CannotAsk && (s == lost || u == unused && s != silent && s != broken)
					case deny:
						ok = o == foreign && u != unused
					case fail:
						ok = s == missing || a == smbapi.Refused || a == smbapi.NoAnswer || a == smbapi.CannotAsk && (s == silent || s == broken)
					}
					if !ok {
						t.Errorf("next(%d, %d, %d, %d) = %d", s, o, u, a, do)
					}
				}
			}
		}
	}
	if len(seen) != int(fail)+1 {
		t.Errorf("only the actions %v occur", seen)
	}
}
