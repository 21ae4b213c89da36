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
)

// records is what this process knows about the mappings of a node in addition to what
// Windows reports: the credentials of the mappings that it made, and the links to their
// shares. It is only in memory. After a restart the service finds links again in the
// kubelet's directories, and the credentials are unknown.
type records struct {
	mu     sync.Mutex
	key    [sha256.Size]byte // random key of the marks; never leaves the process
	shares map[string]*record

	searched   bool
	at         time.Time // of the last search
	incomplete bool      // the search was: any share may have unknown links
	unreported bool      // the result of the search is not in the log
	found      int       // links that it found
	armed      bool      // the timer for unwanted mappings runs
}

// record is what is known about one share.
type record struct {
	made bool              // made or adopted by this process, with the credentials below
	user string            // from the request
	mark [sha256.Size]byte // HMAC of user and password
	// inferred means that the credentials are those of the requests for all found links.
	inferred bool
	// links are the links to the share, by folded path. They were made or found by this
	// process, and may no longer exist.
	links map[string]link
	// unwanted means that the removal was requested while links used the mapping.
	unwanted bool
}

// link is what is known about one link to a share.
type link struct {
	path  string
	found bool // by the search: the link is older than this process
	// The credentials of a request for the link that the server accepted while it was
	// not known whose credentials the mapping has. The zero mark: there was none.
	user string
	mark [sha256.Size]byte
}

func newRecords() *records {
	r := &records{shares: map[string]*record{}}
	rand.Read(r.key[:]) // never fails
	return r
}

// wasSearched reports whether no search for links is needed now.
func (r *records) wasSearched(now time.Time) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.searched && !(r.incomplete && now.Sub(r.at) >= searchInterval)
}

func (r *records) setSearched(now time.Time, incomplete bool, links int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.searched, r.at, r.incomplete, r.unreported, r.found = true, now, incomplete, true, links
}

// toReport returns how many links the last search found, once for each search.
func (r *records) toReport() (links int, ok bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	links, ok = r.found, r.unreported
	r.unreported = false
	return links, ok
}

// partly reports whether the search was incomplete.
func (r *records) partly() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.incomplete
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
// made, and whose credentials stay unknown.
func (r *records) adopted(root string) {
	r.change(root, func(rec *record) {
		rec.made, rec.inferred, rec.unwanted, rec.user, rec.mark = true, false, false, "", unknownMark
	})
}

// unknownMark is the mark of unknown credentials.
var unknownMark [sha256.Size]byte

// mapped records the credentials of a mapping.
func (r *records) mapped(root, user, password string) {
	r.change(root, func(rec *record) {
		rec.made, rec.inferred, rec.unwanted, rec.user, rec.mark = true, false, false, user, r.markOf(user, password)
	})
}

// inferred reports whether the credentials of a mapping are those of the requests for its
// found links.
func (r *records) inferred(root string) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	rec := r.shares[root]
	return rec != nil && rec.inferred
}

// infer records that the credentials of a mapping are those of the requests for its found
// links.
func (r *records) infer(root, user, password string) {
	r.mapped(root, user, password)
	r.change(root, func(rec *record) { rec.inferred = true })
}

// removed forgets the credentials of a removed mapping.
func (r *records) removed(root string) {
	r.change(root, func(rec *record) {
		rec.made, rec.inferred, rec.unwanted, rec.user, rec.mark = false, false, false, "", unknownMark
		for key, l := range rec.links {
			l.user, l.mark = "", unknownMark
			rec.links[key] = l
		}
	})
}

func (r *records) setUnwanted(root string, unwanted bool) {
	r.change(root, func(rec *record) { rec.unwanted = unwanted })
}

// addLink records a link. found says that the search found it.
func (r *records) addLink(root, path string, found bool) {
	r.change(root, func(rec *record) {
		if _, known := rec.links[linkKey(path)]; !known {
			rec.links[linkKey(path)] = link{path: path, found: found}
		}
	})
}

// accepted records that the server accepted credentials for a link.
func (r *records) accepted(root, path, user, password string) {
	r.change(root, func(rec *record) {
		l := rec.links[linkKey(path)]
		l.path, l.user, l.mark = path, user, r.markOf(user, password)
		rec.links[linkKey(path)] = l
	})
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
		rec = &record{links: map[string]link{}}
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
	slices.Sort(roots) // so that a seeded run can be repeated
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

// linksTo returns the known links to a share, by path. They may no longer exist.
func (r *records) linksTo(root string) []link {
	r.mu.Lock()
	defer r.mu.Unlock()
	rec := r.shares[root]
	if rec == nil {
		return nil
	}
	return slices.SortedFunc(maps.Values(rec.links), func(a, b link) int { return strings.Compare(a.path, b.path) })
}

// link returns what is known about one link.
func (r *records) link(root, path string) link {
	r.mu.Lock()
	defer r.mu.Unlock()
	if rec := r.shares[root]; rec != nil {
		return rec.links[linkKey(path)]
	}
	return link{}
}

func linkKey(path string) string {
	return strings.TrimRight(winpath.Fold(strings.ReplaceAll(winpath.WithDrive(path), "/", `\`)), `\`)
}
