package smb

// Remembered is how many shares the service keeps a record of.
func (s *SMB) Remembered() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.shares)
}

var SameUser = sameUser

// Root is what mappings of the path are made of.
func (r RemotePath) Root() string { return r.root() }
