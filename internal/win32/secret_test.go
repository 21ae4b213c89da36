package win32

import (
	"bytes"
	"encoding/json"
	"fmt"
	"log/slog"
	"strings"
	"testing"
)

func TestSecretNotPrinted(t *testing.T) {
	const marked = "MARKED-secret"
	type inside struct {
		Exported   Secret
		unexported Secret
		pointer    *Secret
	}
	s := NewSecret(marked)
	var log bytes.Buffer
	logger := slog.New(slog.NewJSONHandler(&log, &slog.HandlerOptions{Level: slog.LevelDebug}))
	for _, v := range []any{s, &s, inside{s, s, &s}, &inside{s, s, &s}, []Secret{s}, map[string]Secret{"k": s}, NewUse{Password: s}, struct{ u NewUse }{NewUse{Password: s}}} {
		for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%q", "%x", "%d"} {
			fmt.Fprintf(&log, verb+"\n", v)
		}
		text, err := json.Marshal(v)
		if err != nil {
			t.Errorf("json.Marshal: %v", err)
		}
		log.Write(text)
		logger.Info("value", "v", v)
	}
	if strings.Contains(log.String(), marked) || strings.Contains(log.String(), fmt.Sprintf("%x", marked)) {
		t.Errorf("a secret was printed:\n%s", log.String())
	}
	if s.Reveal() != marked || (Secret{}).Reveal() != "" {
		t.Errorf("Reveal() = %q and %q, want the text and nothing", s.Reveal(), (Secret{}).Reveal())
	}
}

// A hook of Observe gets the share and the flags of a mapping, but not its
// secret.
func TestObserveHidesSecrets(t *testing.T) {
	const marked = "MARKED-secret"
	var seen strings.Builder
	api := Observe(&recorder{}, func(c *Call) error {
		fmt.Fprintf(&seen, "%v %+v %#v\n", c, *c, *c)
		return c.Do()
	})
	if err := api.UseAdd(NewUse{Remote: `\\s\d`, User: "u", Password: NewSecret(marked), Flags: REQUIRE_CONNECTION_PRIVACY}); err != nil {
		t.Fatal(err)
	}
	if strings.Contains(seen.String(), marked) || !strings.Contains(seen.String(), `UseAdd "\\\\s\\d" 0x10`) {
		t.Errorf("the hook saw %s", seen.String())
	}
}
