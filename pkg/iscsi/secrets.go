package iscsi

import (
	"encoding/json"
	"fmt"
)

// The published requests have secrets as plain strings, so methods have to hide them. fmt
// does not call methods of values in unexported fields: a struct with a request in an
// unexported field must not be printed.

// hidden is printed instead of a secret.
const hidden = "***"

func stars(secret string) string {
	if secret == "" {
		return ""
	}
	return hidden
}

// Format implements [fmt.Formatter]: it does not print the secret with
// any verb.
func (r ConnectTargetRequest) Format(f fmt.State, _ rune) {
	p := TargetPortal{}
	if r.TargetPortal != nil {
		p = *r.TargetPortal
	}
	fmt.Fprintf(f, "{TargetPortal:%+v IQN:%q AuthType:%d ChapUsername:%q ChapSecret:%s}", p, r.IQN, r.AuthType, r.ChapUsername, stars(r.ChapSecret))
}

// MarshalJSON implements [json.Marshaler] without the secret, for logs in JSON. Requests
// are never sent as JSON.
func (r ConnectTargetRequest) MarshalJSON() ([]byte, error) {
	type plain ConnectTargetRequest // without methods
	p := plain(r)
	p.ChapSecret = stars(p.ChapSecret)
	return json.Marshal(p)
}

// Format implements [fmt.Formatter]: it does not print the secret with
// any verb.
func (r SetMutualChapSecretRequest) Format(f fmt.State, _ rune) {
	fmt.Fprintf(f, "{MutualChapSecret:%s}", stars(r.MutualChapSecret))
}

// MarshalJSON implements [json.Marshaler] without the secret.
func (r SetMutualChapSecretRequest) MarshalJSON() ([]byte, error) {
	return json.Marshal(map[string]string{"MutualChapSecret": stars(r.MutualChapSecret)})
}
