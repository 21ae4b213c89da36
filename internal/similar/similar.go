// Package similar finds the known words that a misspelled one may stand for.
package similar

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
)

// Words returns the known words that are most similar to word: one or, if they are equally
// similar, up to three. It ignores case. A word that is not similar to any returns none.
func Words(word string, known []string) []string {
	type candidate struct {
		word     string
		distance int
	}
	var all []candidate
	for _, k := range known {
		if d := distance(strings.ToLower(word), strings.ToLower(k)); d < len(word)/3+2 {
			all = append(all, candidate{k, d})
		}
	}
	slices.SortStableFunc(all, func(a, b candidate) int { return cmp.Compare(a.distance, b.distance) })
	var words []string
	for _, c := range all[:min(len(all), 3)] {
		if c.distance == all[0].distance {
			words = append(words, c.word)
		}
	}
	return words
}

// Question asks whether one of [Words] is meant, as in `did you mean "Format"?`. It
// returns "" if no known word is similar.
func Question(word string, known []string) string {
	words := Words(word, known)
	if len(words) == 0 {
		return ""
	}
	for i, w := range words {
		words[i] = fmt.Sprintf("%q", w)
	}
	return "did you mean " + strings.Join(words, " or ") + "?"
}

// distance returns the number of insertions, deletions and replacements between a and b.
func distance(a, b string) int {
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		diagonal := row[0]
		row[0] = i + 1
		for j := range len(b) {
			replace := diagonal
			if a[i] != b[j] {
				replace++
			}
			diagonal = row[j+1]
			row[j+1] = min(replace, row[j]+1, row[j+1]+1)
		}
	}
	return row[len(b)]
}
