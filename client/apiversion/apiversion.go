// Package apiversion parses and orders the names of API versions, such as
// v1alpha2, v1beta1 and v1.
//
// Versions are ordered by age: by major number, then alpha before beta before
// stable, then by the number behind alpha or beta. So v1 comes before
// v2alpha1, which is newer though less stable.
package apiversion

import (
	"cmp"
	"fmt"
	"regexp"
	"strconv"
)

var pattern = regexp.MustCompile(`^v([1-9][0-9]*)(?:(alpha|beta)([1-9][0-9]*))?$`)

// Version is the version of an API group. It can be compared with == and used
// as a map key. The zero Version is no version: it prints as the empty string
// and comes before all others.
type Version struct {
	name      string
	major     uint
	stability stability
	number    uint // behind alpha or beta
}

type stability int

const (
	none stability = iota
	alpha
	beta
	stable
)

// Comparison is how one version relates to another.
type Comparison int

// What [Version.Compare] returns.
const (
	Lesser  Comparison = -1
	Equal   Comparison = 0
	Greater Comparison = 1
)

// NewVersion parses the name of a version. With an error it returns the zero
// Version.
func NewVersion(name string) (Version, error) {
	m := pattern.FindStringSubmatch(name)
	if m == nil {
		return Version{}, fmt.Errorf("invalid version name: %q", name)
	}
	v := Version{name: name, stability: stable}
	var err error
	if v.major, err = number(m[1], name); err != nil {
		return Version{}, err
	}
	switch m[2] {
	case "":
		return v, nil
	case "alpha":
		v.stability = alpha
	case "beta":
		v.stability = beta
	}
	if v.number, err = number(m[3], name); err != nil {
		return Version{}, err
	}
	return v, nil
}

// number parses one of the numbers in a version name.
func number(digits, name string) (uint, error) {
	n, err := strconv.ParseUint(digits, 10, strconv.IntSize)
	if err != nil {
		return 0, fmt.Errorf("unable to convert %q from version name %q to int: %w", digits, name, err)
	}
	return uint(n), nil
}

// NewVersionOrPanic is [NewVersion] for names that are constants of a program:
// it panics with the error.
func NewVersionOrPanic(name string) Version {
	v, err := NewVersion(name)
	if err != nil {
		panic(err)
	}
	return v
}

// IsValidVersion tells whether a name has the form of a version. Its numbers
// may still be too large for [NewVersion].
func IsValidVersion(name string) bool {
	return pattern.MatchString(name)
}

// Compare tells whether v is older than, the same as, or newer than other.
func (v Version) Compare(other Version) Comparison {
	return Comparison(cmp.Or(
		cmp.Compare(v.major, other.major),
		cmp.Compare(v.stability, other.stability),
		cmp.Compare(v.number, other.number),
	))
}

// String returns the name that the version was made from.
func (v Version) String() string { return v.name }
