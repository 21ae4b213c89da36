package winfs

// LinkBelowOf is LinkBelow with another number of entries that it looks at.
var LinkBelowOf = linkBelow
