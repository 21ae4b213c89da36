package smb

import (
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"strings"
	"sync"
	"time"

	"github.com/kubernetes-csi/csi-proxy/v2/internal/winpath"
)

// records are what this process knows of the mappings of a node beyond what
// Windows tells: with which credentials it made them, and which links lead to
// them. They are in memory only; after a restart links are found again where the
// kubelet lets drivers make them, and credentials are not known.
type records struct {
	mu     sync.Mutex
	key    [sha256.Size]byte // of the marks; random, never leaves the process
	shares map[string]*record

	search   sync.Mutex // held while links are looked for
	searched bool
	armed    bool // the timer runs that looks for unwanted mappings
	partly   bool // there was too much to look at all: any share may have links that are not known
}

// record is about one share.
type record struct {
	made bool              // or adopted by this process, with the credentials below
	user string            // as the request had it
	mark [sha256.Size]byte // of user and password
	// links are the paths of links to the share, by folded path. They were made
	// or found; whether one is still there is asked when it matters.
	links map[string]string
	// unwanted: its removal was asked for while links used it.
	unwanted bool
}

func newRecords() *records {
	r := &records{shares: map[string]*record{}}
	rand.Read(r.key[:]) // does not fail
	return r
}

// markOf tells credentials apart. It says nothing about them without the key.
func (r *records) markOf(user, password string) (mark [sha256.Size]byte) {
	h := hmac.New(sha256.New, r.key[:])
	h.Write([]byte(strings.ToLower(user) + "\x00"))
	if user != "" { // without a user the password is not used
		h.Write([]byte(password))
	}
	h.Sum(mark[:0])
	return mark
}

// credentials are those that this process made the mapping with.
func (r *records) credentials(root string) (user string, mark [sha256.Size]byte, known bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if rec := r.shares[root]; rec != nil {
		return rec.user, rec.mark, rec.made
	}
	return "", mark, false
}

// adopted notes that a mapping, which an earlier process made and which is in
// use, is this one's now. Its password stays unknown: noting that of whoever asks
// first would refuse all others if it is the wrong one.
func (r *records) adopted(root, user string) {
	r.change(root, func(rec *record) {
		rec.made, rec.unwanted, rec.user, rec.mark = true, false, user, unknownMark
	})
}

// unknownMark stands for credentials of which only the user is known.
var unknownMark [sha256.Size]byte

// mapped notes with which credentials a mapping was made.
func (r *records) mapped(root, user, password string) {
	r.change(root, func(rec *record) {
		rec.made, rec.unwanted, rec.user, rec.mark = true, false, user, r.markOf(user, password)
	})
}

// removed forgets the credentials of a mapping that is gone.
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

// change changes the record of a share, of which nothing is kept that says
// nothing: callers may name any number of shares.
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

// unwanted returns the shares whose removal was asked for while links used them: those
// with a link at or below path or, if path is empty, all.
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

// armTimer calls f after the interval, if a share is unwanted and the timer does not
// run.
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

// linksTo are the paths at which links to a share were.
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
