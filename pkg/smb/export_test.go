package smb

// Remembered returns the number of shares and servers that the service has a record of.
func (s *SMB) Remembered() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.shares) + len(s.servers)
}

// MaybeSame reports whether two names can be of the same user.
func MaybeSame(a, b string) bool { return accountOf(a).maybe(accountOf(b)) }
