package template

import (
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"gopkg.in/yaml.v3"
)

// reader turns YAML into values and keeps everything that is wrong with it.
//
// CloudFormation reads YAML 1.1 without aliases and merges (user guide, "CloudFormation template format") and takes no null. Here is stricter where YAML 1.1
// and what a person means part: a bare yes, no, on or off, and a number such as 0123, have to be quoted.
type reader struct{ problems problems }

func (r *reader) fail(n *yaml.Node, format string, args ...any) {
	r.problems.add("line %d: %s", n.Line, fmt.Sprintf(format, args...))
}

// problems are kept once each: a value may be looked at more than once.
type problems []string

func (p *problems) add(format string, args ...any) {
	if text := fmt.Sprintf(format, args...); !slices.Contains(*p, text) {
		*p = append(*p, text)
	}
}

func (p problems) err() error {
	var all []error
	for _, text := range p {
		all = append(all, errors.New(text))
	}
	return errors.Join(all...)
}

type pair struct {
	key  string
	at   *yaml.Node // of the key
	node *yaml.Node
}

// pairs are the entries of a mapping in the order of the text.
func (r *reader) pairs(n *yaml.Node, what string) []pair {
	if n.Kind != yaml.MappingNode || isFunction(n) {
		r.fail(n, "%s has to be a mapping", what)
		return nil
	}
	first := map[string]int{}
	var all []pair
	for i := 0; i+1 < len(n.Content); i += 2 {
		at := n.Content[i]
		key, ok := r.key(at)
		if !ok {
			continue
		}
		if line, twice := first[key]; twice {
			r.fail(at, "key %s is there already, on line %d", key, line)
			continue
		}
		first[key] = at.Line
		all = append(all, pair{key, at, n.Content[i+1]})
	}
	return all
}

func (r *reader) key(n *yaml.Node) (string, bool) {
	if n.ShortTag() == "!!merge" {
		r.fail(n, "CloudFormation does not merge mappings (<<)")
		return "", false
	}
	if n.Kind == yaml.ScalarNode && n.ShortTag() == "!!int" {
		return n.Value, true // an account, say
	}
	before := len(r.problems)
	key, ok := r.value(n).(string)
	if !ok && len(r.problems) == before {
		r.fail(n, "key %s is no text: quote it", n.Value)
	}
	return key, ok && len(r.problems) == before
}

// attributes are the entries of a mapping that may have these and no others, those with a ! in front being required.
func (r *reader) attributes(n *yaml.Node, what string, names ...string) map[string]*yaml.Node {
	found := map[string]*yaml.Node{}
	for _, p := range r.pairs(n, what) {
		if !slices.Contains(names, p.key) && !slices.Contains(names, "!"+p.key) {
			r.fail(p.at, "%s has an attribute %s, which is not known", what, p.key)
		}
		found[p.key] = p.node
	}
	for _, name := range names {
		if required, ok := strings.CutPrefix(name, "!"); ok && found[required] == nil && n.Kind == yaml.MappingNode {
			r.fail(n, "%s has no %s", what, required)
		}
	}
	return found
}

func isFunction(n *yaml.Node) bool {
	return strings.HasPrefix(n.Tag, "!") && !strings.HasPrefix(n.Tag, "!!")
}

func longForm(tag string) (string, bool) {
	switch name := strings.TrimPrefix(tag, "!"); name {
	case "Ref", "Condition":
		return name, true
	case "GetAtt", "Sub", "Join", "If", "Equals", "Not", "And", "Or", "Select", "Split", "FindInMap", "Base64", "Contains", "EachMemberEquals", "EachMemberIn":
		return "Fn::" + name, true
	}
	return "", false
}

func (r *reader) value(n *yaml.Node) any {
	if !isFunction(n) {
		return r.plain(n)
	}
	name, ok := longForm(n.Tag)
	if !ok {
		r.fail(n, "tag %s is not known", n.Tag)
		return ""
	}
	var argument any = n.Value
	if n.Kind != yaml.ScalarNode {
		argument = r.plain(n)
	}
	return map[string]any{name: split(name, argument)}
}

// split makes one form of the two that Fn::GetAtt has; an attribute may have dots of its own.
func split(name string, argument any) any {
	text, ok := argument.(string)
	if !ok || name != "Fn::GetAtt" {
		return argument
	}
	id, attribute, _ := strings.Cut(text, ".")
	return []any{id, attribute}
}

func (r *reader) plain(n *yaml.Node) any {
	switch n.Kind {
	case yaml.MappingNode:
		values := map[string]any{}
		for _, p := range r.pairs(&yaml.Node{Kind: n.Kind, Content: n.Content, Line: n.Line}, "this") {
			values[p.key] = split(p.key, r.value(p.node))
		}
		return values
	case yaml.SequenceNode:
		values := []any{}
		for _, item := range n.Content {
			values = append(values, r.value(item))
		}
		return values
	case yaml.ScalarNode:
		return r.scalar(n)
	default:
		r.fail(n, "CloudFormation takes no aliases (*%s)", n.Value)
		return ""
	}
}

var wholeNumber = regexp.MustCompile(`^-?(0|[1-9][0-9]{0,17})$`)

func (r *reader) scalar(n *yaml.Node) any {
	if n.Style&yaml.TaggedStyle != 0 && n.Tag != "!!str" {
		r.fail(n, "tag %s is not known", n.Tag)
		return ""
	}
	if n.Style != 0 { // quoted, or a block
		return n.Value
	}
	switch strings.ToLower(n.Value) {
	case "yes", "no", "on", "off":
		r.fail(n, "CloudFormation reads %s as a boolean: quote it", n.Value)
		return ""
	}
	switch n.ShortTag() {
	case "!!null":
		r.fail(n, "CloudFormation takes no null: leave the key out, or quote the empty text")
	case "!!bool":
		return strings.EqualFold(n.Value, "true")
	case "!!int":
		if i, err := strconv.Atoi(n.Value); err == nil && wholeNumber.MatchString(n.Value) {
			return i
		}
		r.fail(n, "%s is not everybody's number: quote it", n.Value)
	case "!!float":
		if f, err := strconv.ParseFloat(n.Value, 64); err == nil {
			return f
		}
		r.fail(n, "%s is not everybody's number: quote it", n.Value)
	}
	return n.Value // a date too is text: CloudFormation has no such values
}
