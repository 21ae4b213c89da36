package driver

import (
	"encoding/binary"
	"fmt"
	"slices"
	"strings"

	"github.com/kubernetes-csi/csi-proxy/v2/internal/win32"
)

// USE_INFO_2 by its offsets, independent of the native side.
const (
	useSize   = 56
	useRemote = 8
	useStatus = 24
	useUser   = 40
	useDomain = 48
)

// usesAtOnce is how many mappings one NetUseEnum returns. A caller that wants all
// of them must continue.
const usesAtOnce = 2

// persistentGlobal is the flags of a mapping that is for all sessions and outlives a restart
// (lmuse.h: CREATE_GLOBAL_MAPPING, CREATE_PERSIST_MAPPING).
const persistentGlobal = 0x100 | 0x20

// Mapping is the arguments of a mapping through netapi32.dll.
type Mapping struct {
	Remote, User, Domain, Password string
	Flags                          uint32
}

// Mappings returns the arguments of all mappings through netapi32.dll, including
// failed ones.
func (s *Server) Mappings() []Mapping {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]Mapping(nil), s.mappings...)
}

// IgnoreGlobalFlag makes NetUseAdd behave like a Windows that does not know its
// flag: a new mapping is for one logon session.
func (s *Server) IgnoreGlobalFlag() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.sessionOnly = true
}

// uses makes a call of netapi32.dll.
func (s *Server) uses(what uint32, a *arguments) (results, error) {
	switch what {
	case callUseAdd:
		return results{}, s.useAdd(a)
	case callUses:
		global, resume := a.number() != 0, a.number()
		if a.err != nil {
			return results{}, a.err
		}
		s.mu.Lock()
		list := slices.Clone(s.own)
		s.mu.Unlock()
		if global {
			var err error
			if list, err = s.api.UseEnum(); err != nil {
				return results{}, err
			}
		}
		left := list[min(int(resume), len(list)):]
		r := useInfos(left[:min(len(left), usesAtOnce)])
		r.second = uint32(len(left))
		if len(left) > usesAtOnce {
			return r, win32.ERROR_MORE_DATA
		}
		return r, nil
	case callUseDel:
		remote, global, force := a.text(), a.number() != 0, a.number()
		a.refuse(global && force != win32.USE_LOTS_OF_FORCE, "a mapping is removed without force")
		if a.err != nil {
			return results{}, a.err
		}
		if global {
			return results{}, s.api.UseDel(remote)
		}
		s.mu.Lock()
		defer s.mu.Unlock()
		before := len(s.own)
		s.own = slices.DeleteFunc(s.own, func(u win32.Use) bool { return strings.EqualFold(u.Remote, remote) })
		if len(s.own) == before {
			return results{}, win32.ERROR_NOT_CONNECTED
		}
		return results{}, nil
	}
	return results{}, fmt.Errorf("call %d: %w", what, win32.ERROR_INVALID_FUNCTION)
}

func (s *Server) useAdd(a *arguments) error {
	local := a.text()
	m := Mapping{Remote: a.text(), Password: a.text(), User: a.text(), Domain: a.text(), Flags: a.number()}
	a.refuse(local != "", "the mapping has a drive letter")
	a.refuse(m.Flags&persistentGlobal != persistentGlobal, "the mapping is not a persistent global one")
	if a.err != nil {
		return a.err
	}
	s.mu.Lock()
	s.mappings = append(s.mappings, m)
	sessionOnly := s.sessionOnly
	if sessionOnly {
		s.own = append(s.own, win32.Use{Remote: m.Remote, User: m.User, Domain: m.Domain})
	}
	s.mu.Unlock()
	if sessionOnly {
		return nil
	}
	return s.api.UseAdd(win32.NewUse{Remote: m.Remote, User: m.User, Domain: m.Domain, Password: win32.NewSecret(m.Password), Flags: m.Flags &^ persistentGlobal})
}

// useInfos returns USE_INFO_2 structures, followed by their strings.
func useInfos(list []win32.Use) results {
	le := binary.LittleEndian
	r := results{first: uint32(len(list)), bytes: make([]byte, useSize*len(list))}
	for i, u := range list {
		at := i * useSize
		le.PutUint32(r.bytes[at+useStatus:], u.Status)
		for _, f := range []struct {
			at   int
			text string
		}{{useRemote, u.Remote}, {useUser, u.User}, {useDomain, u.Domain}} {
			r.pointers = append(r.pointers, uint32(at+f.at))
			le.PutUint64(r.bytes[at+f.at:], uint64(len(r.bytes)))
			for _, c := range append(win32.UTF16(f.text), 0) {
				r.bytes = le.AppendUint16(r.bytes, c)
			}
		}
	}
	return r
}
