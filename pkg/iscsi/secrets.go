package iscsi

import (
	"encoding/json"
	"fmt"
)

// The published requests hold secrets as plain strings, so hiding them takes
// methods. fmt does not call methods of what is in an unexported field of some
// other structure: whoever keeps a request in one must not print that structure.

// hidden is what is printed in place of a secret.
const hidden = "***"

func stars(secret string) string {
	if secret == "" {
		return ""
	}
	return hidden
}

// Format implements [fmt.Formatter]: whatever the verb, the secret is not
// printed.
func (r ConnectTargetRequest) Format(f fmt.State, _ rune) {
	p := TargetPortal{}
	if r.TargetPortal != nil {
		p = *r.TargetPortal
	}
	fmt.Fprintf(f, "{TargetPortal:%+v IQN:%q AuthType:%d ChapUsername:%q ChapSecret:%s}", p, r.IQN, r.AuthType, r.ChapUsername, stars(r.ChapSecret))
}

// MarshalJSON implements [json.Marshaler] without the secret: what is logged as
// JSON does not tell it. A request does not travel as JSON.
func (r ConnectTargetRequest) MarshalJSON() ([]byte, error) {
	type plain ConnectTargetRequest // without methods
	p := plain(r)
	p.ChapSecret = stars(p.ChapSecret)
	return json.Marshal(p)
}

// Format implements [fmt.Formatter]: whatever the verb, the secret is not
// printed.
func (r SetMutualChapSecretRequest) Format(f fmt.State, _ rune) {
	fmt.Fprintf(f, "{MutualChapSecret:%s}", stars(r.MutualChapSecret))
}

// MarshalJSON implements [json.Marshaler] without the secret.
func (r SetMutualChapSecretRequest) MarshalJSON() ([]byte, error) {
	return json.Marshal(map[string]string{"MutualChapSecret": stars(r.MutualChapSecret)})
}
