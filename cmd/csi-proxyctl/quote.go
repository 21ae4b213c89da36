package main

import (
	"regexp"
	"strings"
	"unicode"
)

// plainWord matches what PowerShell takes as one argument without quotes.
var plainWord = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._-]*$`)

// quoted returns a value as an argument of a command that an administrator pastes into
// PowerShell. The value may be chosen by others: a target of iSCSI chooses the serial numbers
// of its disks. PowerShell also treats four other characters as single quotes.
func quoted(value string) string {
	value = printable(value)
	if plainWord.MatchString(value) {
		return value
	}
	return "'" + singleQuotes.ReplaceAllString(value, "$0$0") + "'"
}

var singleQuotes = regexp.MustCompile("['\u2018\u2019\u201a\u201b]")

// printable replaces control characters and others that a terminal does not show.
func printable(text string) string {
	return strings.Map(func(r rune) rune {
		if unicode.IsPrint(r) {
			return r
		}
		return unicode.ReplacementChar
	}, text)
}
