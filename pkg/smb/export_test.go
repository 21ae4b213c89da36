package smb

// Remembered returns the number of shares that the service has a record of.
func (s *SMB) Remembered() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.shares)
}

var SameUser = sameUser

// Root returns the share that is mapped for the path.
func (r RemotePath) Root() string { return r.root() }
