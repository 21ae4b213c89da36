package main

import (
	"regexp"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"
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

// printable returns text in which control characters, line ends and what else a terminal does
// not show are written as escapes. Callers and devices choose values that this command prints.
func printable(text string) string {
	var b strings.Builder
	for rest := text; rest != ""; {
		r, size := utf8.DecodeRuneInString(rest)
		if unicode.IsPrint(r) && (r != utf8.RuneError || size > 1) {
			b.WriteRune(r)
		} else {
			b.WriteString(strings.Trim(strconv.Quote(rest[:size]), `"`))
		}
		rest = rest[size:]
	}
	return b.String()
}
