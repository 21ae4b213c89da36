package smb

import (
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/kubernetes-csi/csi-proxy/v2/internal/winpath"
	smbapi "github.com/kubernetes-csi/csi-proxy/v2/pkg/smb/hostapi"
)

// records is what this process knows about the mappings of a node in addition to what
// Windows reports: the credentials of the mappings that it made, and the links to their
// shares. It is only in memory. After a restart the service finds links again in the
// kubelet's directories, and the credentials are unknown.
type records struct {
	mu      sync.Mutex
	key     mark // random key of the marks; never leaves the process
	shares  map[winpath.Share]*record
	servers map[string]credentials // of the mappings of a server: Windows allows one user at a time

	searched   bool
	at         time.Time // when the last search began
	incomplete bool      // the search was: any share may have unknown links
	armed      bool      // the timer for unwanted mappings runs
}

// credentials are those of a request.
type credentials struct {
	user string // as the request has it, for messages
	account
	mark mark
}

// mark is an HMAC of a user's name without a domain, and the password.
type mark [sha256.Size]byte

// account is the name of a user, in lower case: "corp\ann" and "ann@corp.example.com" are ann.
// The zero account is the node's own.
type account struct{ text, domain, name string }

func accountOf(user string) account {
	a := account{text: strings.ToLower(user)}
	var ok bool
	if a.domain, a.name, ok = strings.Cut(a.text, `\`); !ok {
		a.name, a.domain, _ = strings.Cut(a.text, "@")
	}
	return a
}

// maybe reports whether two names can be of the same user: Windows may report a domain
// that is not in the request, or that the request has in the name (name@domain).
func (a account) maybe(b account) bool {
	first, _, _ := strings.Cut(a.domain, ".")
	second, _, _ := strings.Cut(b.domain, ".")
	return a.name == b.name && (first == "" || second == "" || first == second)
}

// record is what is known about one share.
type record struct {
	made bool        // by this process, or used by a request to it
	new  bool        // this process made it, and there was none
	with credentials // with which this process made the mapping; zero if it did not
	// requires is what the mapping requires, or required for its links when it was removed. It is
	// nil if that is unknown.
	requires *smbapi.Protection
	// links are the links to the share, by folded path. They were made or found by this
	// process, and may no longer exist.
	links map[string]string
	// unwanted means that the removal was requested while links used the mapping.
	unwanted bool
}

func newRecords() *records {
	r := &records{shares: map[winpath.Share]*record{}, servers: map[string]credentials{}}
	rand.Read(r.key[:]) // never fails
	return r
}

// wasSearched reports whether there was a search for links since a time, and none is needed now
// because it was incomplete.
func (r *records) wasSearched(since, now time.Time) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.searched && !r.at.Before(since) && !(r.incomplete && now.Sub(r.at) >= searchInterval)
}

func (r *records) setSearched(began time.Time, incomplete bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.searched, r.at, r.incomplete = true, began, incomplete
}

// partly reports whether the search was incomplete.
func (r *records) partly() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.incomplete
}

// credentialsOf returns credentials with a keyed hash, to compare them without storing them.
func (r *records) credentialsOf(user, password string) credentials {
	c := credentials{user: user, account: accountOf(user)}
	h := hmac.New(sha256.New, r.key[:])
	h.Write([]byte(c.name + "\x00"))
	if user != "" { // without a user the password is not used
		h.Write([]byte(password))
	}
	h.Sum(c.mark[:0])
	return c
}

// credentials returns the credentials of the mappings of a server, if this process made one.
func (r *records) credentials(server string) (c credentials, known bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	c, known = r.servers[server]
	return c, known
}

// made reports whether this process has made or used the mapping of a share.
func (r *records) made(share winpath.Share) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	rec := r.shares[share]
	return rec != nil && rec.made
}

// began reports whether this process made the mapping of a share when there was none.
func (r *records) began(share winpath.Share) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	rec := r.shares[share]
	return rec != nil && rec.new
}

// mapped records that this process made a mapping.
func (r *records) mapped(share winpath.Share, c credentials, requires smbapi.Protection) {
	r.change(share, func(rec *record) {
		rec.made, rec.with, rec.requires, r.servers[share.Server()] = true, c, &requires, c
	})
}

// accepted records the credentials that the server accepts for a mapping that was made with others.
func (r *records) accepted(share winpath.Share, c credentials) {
	r.change(share, func(rec *record) { rec.made, r.servers[share.Server()] = true, c })
}

// madeWith returns the credentials with which this process made the mapping of a share.
func (r *records) madeWith(share winpath.Share) (c credentials, ok bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if rec := r.shares[share]; rec != nil {
		c = rec.with
	}
	return c, c.mark != mark{}
}

// required returns what the mapping of a share requires, or required for its links, if that is known.
func (r *records) required(share winpath.Share) (p smbapi.Protection, known bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if rec := r.shares[share]; rec != nil && rec.requires != nil {
		return *rec.requires, true
	}
	return p, false
}

// removed forgets a removed mapping, and with the last one of a server its credentials.
func (r *records) removed(share winpath.Share) {
	r.change(share, func(rec *record) {
		rec.made, rec.new, rec.unwanted, rec.with = false, false, false, credentials{}
		if len(rec.links) == 0 { // else the next mapping requires the same, for those that use them
			rec.requires = nil
		}
		for other, rec := range r.shares {
			if other.Server() == share.Server() && rec.made {
				return
			}
		}
		delete(r.servers, share.Server())
	})
}

// addLink records a link, which is at its path now.
func (r *records) addLink(share winpath.Share, path string) {
	r.change(share, func(rec *record) { rec.links[linkKey(path)] = path })
}

// change changes the record of a share. It deletes empty records, because requests can name
// any number of shares.
func (r *records) change(share winpath.Share, change func(*record)) {
	r.mu.Lock()
	defer r.mu.Unlock()
	rec := r.shares[share]
	if rec == nil {
		rec = &record{links: map[string]string{}}
	}
	change(rec)
	if rec.made || rec.unwanted || len(rec.links) > 0 {
		r.shares[share] = rec
	} else {
		delete(r.shares, share)
	}
}

// unwanted returns the shares whose removal was requested while links used them: those with
// a link at or below path, or all if path is empty.
func (r *records) unwanted(path string) (shares []winpath.Share) {
	r.mu.Lock()
	defer r.mu.Unlock()
	removed := linkKey(path)
	for share, rec := range r.shares {
		gone := path == ""
		for link := range rec.links {
			gone = gone || link == removed || strings.HasPrefix(link, removed+`\`)
		}
		if rec.unwanted && gone {
			shares = append(shares, share)
		}
	}
	slices.SortFunc(shares, func(a, b winpath.Share) int { return strings.Compare(a.String(), b.String()) }) // so that a seeded run can be repeated
	return shares
}

// armTimer calls f after the interval if a share is unwanted, unless the timer already runs.
func (r *records) armTimer(f func()) {
	if len(r.unwanted("")) == 0 {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.armed {
		return
	}
	r.armed = true
	time.AfterFunc(sweepInterval, func() {
		r.mu.Lock()
		r.armed = false
		r.mu.Unlock()
		f()
	})
}

// linksTo returns the paths of the known links to a share. They may no longer exist.
func (r *records) linksTo(share winpath.Share) []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	if rec := r.shares[share]; rec != nil {
		return slices.Sorted(maps.Values(rec.links))
	}
	return nil
}

func linkKey(path string) string {
	return strings.TrimRight(winpath.Fold(strings.ReplaceAll(winpath.WithDrive(path), "/", `\`)), `\`)
}
