package registration

import (
	"errors"
	"strings"
	"unicode"

	"github.com/awsmp/metering/internal/awsapi"
)

// A word that may tell something of a person has so many bytes, and so many among the sentences of a text area.
const (
	minTelling       = 3
	minTellingInText = 8
)

// without is an error's text, but for the words of others in it where they repeat what the buyer typed or the token: an adapter's fault, and here
// the last moment to keep it out of the log. What was tried, on what, and the hint are ours, and stay.
func (v visit) without(err error) string {
	const withheld = "withheld, it holds what the buyer typed"
	var known *awsapi.Error
	if !errors.As(err, &known) {
		if v.toldIn(err.Error()) {
			return withheld
		}
		return err.Error()
	}
	ours := *known
	if theirs := (&awsapi.Error{Err: known.Err}).Error(); v.toldIn(theirs) { // as much of it as is shown
		ours.Err = errors.New(withheld)
	}
	return ours.Error()
}

// toldIn reports whether a text holds the token, or something that tells of the buyer.
func (v visit) toldIn(text string) bool {
	if v.token != "" && strings.Contains(text, v.token) {
		return true
	}
	text = strings.ToLower(text)
	for name, value := range v.values {
		for _, part := range (Field{Name: name}).telling(strings.ToLower(value)) {
			if strings.Contains(text, part) {
				return true
			}
		}
	}
	return false
}

// telling are the parts of a value that may tell something of a person: the words. In a text area, which holds sentences, they are its lines and
// the long words, since no error does without the short ones.
func (f Field) telling(value string) []string {
	var parts []string
	shortest := minTelling
	if f.kind() == textArea {
		shortest = minTellingInText
		for line := range strings.SplitSeq(value, "\n") {
			if line = strings.TrimSpace(line); len(line) >= minTelling {
				parts = append(parts, line)
			}
		}
	}
	for word := range strings.FieldsSeq(value) {
		word = strings.TrimFunc(word, func(r rune) bool { return !unicode.IsLetter(r) && !unicode.IsDigit(r) })
		if len(word) >= shortest {
			parts = append(parts, word)
		}
	}
	return parts
}
