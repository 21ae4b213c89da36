package main

import (
	"slices"
	"strings"

	"github.com/kubernetes-csi/csi-proxy/v2/internal/similar"
)

// didYouMean returns a hint with the known words that are most similar to word, or with all
// known words if none is similar.
func didYouMean(word string, known []string) string {
	if question := similar.Question(word, known); question != "" || len(known) == 0 {
		return question
	}
	known = slices.Clone(known)
	slices.Sort(known)
	return "choose one of: " + strings.Join(known, ", ")
}
