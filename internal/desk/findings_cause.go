package desk

import (
	"regexp"
	"strings"
)

// maxCause bounds how much of an error is shown among others, in characters.
const maxCause = 160

// Cause is an error as a person reads it among others: its first line, and of what an SDK of AWS says only what failed and why.
func Cause(text string) string {
	line, _, _ := strings.Cut(text, "\n")
	if head, advice, is := strings.Cut(line, " (no answer from "); is && strings.HasSuffix(advice, ": awsmp simulator)") {
		line = head // for who starts one by hand: a node has its own
	}
	if at := strings.Index(line, "operation error "); at >= 0 {
		head, rest := line[:at], line[at+len("operation error "):]
		operation, _, _ := strings.Cut(rest, ",")
		if _, why, is := strings.Cut(rest, "api error "); is {
			line = head + operation + ": " + why
		} else if _, why, is := strings.Cut(rest, "request send failed, "); is {
			line = head + operation + ": " + regexp.MustCompile(`^[A-Z][a-z]+ "[^"]*": `).ReplaceAllString(why, "")
		}
	}
	if runes := []rune(line); len(runes) > maxCause {
		line = string(runes[:maxCause-1]) + "…"
	}
	return line
}
