// Package apiversion parses and orders the names of API versions, such as
// v1alpha2, v1beta1 and v1.
//
// Versions are ordered by age: by major number, then alpha before beta before
// stable, then by the number after alpha or beta. So v1 comes before v2alpha1,
// which is newer but less stable.
package apiversion

import (
	"cmp"
	"fmt"
	"regexp"
	"strconv"
)

var pattern = regexp.MustCompile(`^v([1-9][0-9]*)(?:(alpha|beta)([1-9][0-9]*))?$`)

// Version is the version of an API group. It can be compared with == and used
// as a map key. The zero Version is not a valid version: its String is empty, and
// it comes before all others.
type Version struct {
	name      string
	major     uint
	stability stability
	number    uint // after alpha or beta
}

type stability int

const (
	none stability = iota
	alpha
	beta
	stable
)

// Comparison is the result of comparing two versions.
type Comparison int

// The results of [Version.Compare].
const (
	Lesser  Comparison = -1
	Equal   Comparison = 0
	Greater Comparison = 1
)

// NewVersion parses the name of a version. If it fails it returns the zero
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

// NewVersionOrPanic is like [NewVersion], but panics with the error. It is meant
// for names that are constants in a program.
func NewVersionOrPanic(name string) Version {
	v, err := NewVersion(name)
	if err != nil {
		panic(err)
	}
	return v
}

// IsValidVersion reports whether a name has the form of a version. Its numbers
// may still be too large for [NewVersion].
func IsValidVersion(name string) bool {
	return pattern.MatchString(name)
}

// Compare returns whether v is older than, equal to, or newer than other.
func (v Version) Compare(other Version) Comparison {
	return Comparison(cmp.Or(
		cmp.Compare(v.major, other.major),
		cmp.Compare(v.stability, other.stability),
		cmp.Compare(v.number, other.number),
	))
}

// String returns the name from which the version was parsed.
func (v Version) String() string { return v.name }
