package smb

import (
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/kubernetes-csi/csi-proxy/v2/internal/winpath"
)

// records is what this process knows about the mappings of a node in addition to what
// Windows reports: the credentials of the mappings that it made, and the links to their
// shares. It is only in memory. After a restart the service finds links again in the
// kubelet's directories, and the credentials are unknown.
type records struct {
	mu     sync.Mutex
	key    [sha256.Size]byte // random key of the marks; never leaves the process
	shares map[string]*record

	search   sync.Mutex // held during the search for links
	searched bool
	at       time.Time   // of the last search
	partly   atomic.Bool // the search was incomplete: any share may have unknown links
	armed    bool        // the timer for unwanted mappings runs
}

// record is what is known about one share.
type record struct {
	made bool              // made or adopted by this process, with the credentials below
	user string            // from the request
	mark [sha256.Size]byte // HMAC of user and password
	// links are the paths of links to the share, by folded path. They were made or
	// found by this process, and may no longer exist.
	links map[string]string
	// unwanted means that the removal was requested while links used the mapping.
	unwanted bool
}

func newRecords() *records {
	r := &records{shares: map[string]*record{}}
	rand.Read(r.key[:]) // never fails
	return r
}

// markOf returns a keyed hash of credentials, to compare them without storing them.
func (r *records) markOf(user, password string) (mark [sha256.Size]byte) {
	h := hmac.New(sha256.New, r.key[:])
	h.Write([]byte(strings.ToLower(user) + "\x00"))
	if user != "" { // without a user the password is not used
		h.Write([]byte(password))
	}
	h.Sum(mark[:0])
	return mark
}

// credentials returns the credentials that this process made the mapping with.
func (r *records) credentials(root string) (user string, mark [sha256.Size]byte, known bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if rec := r.shares[root]; rec != nil {
		return rec.user, rec.mark, rec.made
	}
	return "", mark, false
}

// adopted records that this process has adopted a mapping in use, which an earlier process
// made. Its password stays unknown: if the password of the first request was recorded and
// wrong, all other requests would be refused.
func (r *records) adopted(root, user string) {
	r.change(root, func(rec *record) {
		rec.made, rec.unwanted, rec.user, rec.mark = true, false, user, unknownMark
	})
}

// unknownMark is the mark of credentials with an unknown password.
var unknownMark [sha256.Size]byte

// mapped records the credentials that a mapping was made with.
func (r *records) mapped(root, user, password string) {
	r.change(root, func(rec *record) {
		rec.made, rec.unwanted, rec.user, rec.mark = true, false, user, r.markOf(user, password)
	})
}

// removed forgets the credentials of a removed mapping.
func (r *records) removed(root string) {
	r.change(root, func(rec *record) {
		rec.made, rec.unwanted, rec.user, rec.mark = false, false, "", [sha256.Size]byte{}
	})
}

func (r *records) setUnwanted(root string, unwanted bool) {
	r.change(root, func(rec *record) { rec.unwanted = unwanted })
}

func (r *records) addLink(root, path string) {
	r.change(root, func(rec *record) { rec.links[linkKey(path)] = path })
}

func (r *records) dropLink(root, path string) {
	r.change(root, func(rec *record) { delete(rec.links, linkKey(path)) })
}

// change changes the record of a share. It deletes empty records, because requests can name
// any number of shares.
func (r *records) change(root string, change func(*record)) {
	r.mu.Lock()
	defer r.mu.Unlock()
	rec := r.shares[root]
	if rec == nil {
		rec = &record{links: map[string]string{}}
	}
	change(rec)
	if rec.made || rec.unwanted || len(rec.links) > 0 {
		r.shares[root] = rec
	} else {
		delete(r.shares, root)
	}
}

// unwanted returns the shares whose removal was requested while links used them: those with
// a link at or below path, or all if path is empty.
func (r *records) unwanted(path string) (roots []string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	removed := linkKey(path)
	for root, rec := range r.shares {
		gone := path == ""
		for link := range rec.links {
			gone = gone || link == removed || strings.HasPrefix(link, removed+`\`)
		}
		if rec.unwanted && gone {
			roots = append(roots, root)
		}
	}
	return roots
}

func (r *records) isUnwanted(root string) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	rec := r.shares[root]
	return rec != nil && rec.unwanted
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

// linksTo returns the known links to a share. They may no longer exist.
func (r *records) linksTo(root string) []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	rec := r.shares[root]
	if rec == nil {
		return nil
	}
	var paths []string
	for _, p := range rec.links {
		paths = append(paths, p)
	}
	return paths
}

func linkKey(path string) string {
	return strings.TrimRight(winpath.Fold(strings.ReplaceAll(winpath.WithDrive(path), "/", `\`)), `\`)
}
