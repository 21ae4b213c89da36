package kernel

import (
	"crypto/pbkdf2"
	"crypto/sha256"
)

// passwordRounds is low, because it only protects passwords of tests.
const passwordRounds = 1000

// HashPassword returns what a server stores of a password.
func HashPassword(password string, salt []byte) ([]byte, error) {
	return pbkdf2.Key(sha256.New, password, salt, passwordRounds, sha256.Size)
}
