package template

import (
	"regexp"
	"regexp/syntax"
	"strconv"
	"strings"
)

// whole is the pattern for whole values. It is read alone first: a pattern such as a)|(b must not leave the brackets that are put around it.
//
// CloudFormation's patterns are Java's (user guide, "Using regular expressions"). Go knows most of that and refuses the rest, but it also refuses repeats
// within repeats of more than 1000 in all, such as 20 names of 64 characters, so those of groups are written out.
func whole(pattern string) (*regexp.Regexp, error) {
	_, err := syntax.Parse(pattern, syntax.Perl)
	if bad, ok := err.(*syntax.Error); ok && bad.Code == syntax.ErrInvalidRepeatSize {
		pattern = unrolled(pattern)
		_, err = syntax.Parse(pattern, syntax.Perl)
	}
	if err != nil {
		return nil, err
	}
	return regexp.Compile(`\A(?:` + pattern + `)\z`)
}

var counted = regexp.MustCompile(`^\{([0-9]{1,3})(?:,([0-9]{1,3}))?\}([^?+]|$)`)

// unrolled is the pattern with (x){1,3} as (x)(?:(x)(?:(x))?)?.
func unrolled(pattern string) string {
	var open []int
	for i := 0; i < len(pattern); i++ {
		switch pattern[i] {
		case '\\':
			i++
		case '[':
			i = classEnd(pattern, i)
		case '(':
			open = append(open, i)
		case ')':
			if len(open) == 0 {
				return pattern
			}
			from := open[len(open)-1]
			open = open[:len(open)-1]
			count := counted.FindStringSubmatch(pattern[i+1:])
			if count == nil {
				continue
			}
			least, _ := strconv.Atoi(count[1])
			most := least
			if count[2] != "" {
				most, _ = strconv.Atoi(count[2])
			}
			group, optional := pattern[from:i+1], max(most-least, 0)
			long := strings.Repeat(group, least) + strings.Repeat("(?:"+group, optional) + strings.Repeat(")?", optional)
			rest := pattern[i+1+len(count[0])-len(count[3]):]
			pattern, i = pattern[:from]+long+rest, from+len(long)-1
		}
	}
	return pattern
}

// classEnd is where the character class ends that begins at i.
func classEnd(pattern string, i int) int {
	i++
	if i < len(pattern) && pattern[i] == '^' {
		i++
	}
	if i < len(pattern) && pattern[i] == ']' { // the first may be ] itself
		i++
	}
	for ; i < len(pattern) && pattern[i] != ']'; i++ {
		if pattern[i] == '\\' {
			i++
		}
	}
	return i
}
