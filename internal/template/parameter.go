package template

import (
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"gopkg.in/yaml.v3"
)

// Parameter is what may be given to a template, as CloudFormation's user guide has it ("Parameters syntax"). Type is String, Number or CommaDelimitedList.
// Values are text here whatever the type, as they are for CloudFormation.
type Parameter struct {
	Name, Type, Default   string
	HasDefault            bool
	AllowedValues         []string
	AllowedPattern        string // a Java expression; only what Go reads too can be parsed
	pattern               *regexp.Regexp
	ConstraintDescription string
	Description           string
	MinLength, MaxLength  *int     // of a String, in characters
	MinValue, MaxValue    *float64 // of a Number
	NoEcho                bool
}

func (r *reader) parameter(name string, n *yaml.Node) Parameter {
	what := "parameter " + name
	found := r.attributes(n, what, "!Type", "Default", "AllowedValues", "AllowedPattern", "ConstraintDescription", "Description",
		"MinLength", "MaxLength", "MinValue", "MaxValue", "NoEcho")
	p := Parameter{
		Name:                  name,
		Type:                  r.literal(found["Type"], "Type of "+what),
		AllowedPattern:        r.literal(found["AllowedPattern"], "AllowedPattern of "+what),
		ConstraintDescription: r.literal(found["ConstraintDescription"], "ConstraintDescription of "+what),
		Description:           r.literal(found["Description"], "Description of "+what),
		MinLength:             limit(r, found["MinLength"], what, strconv.Atoi),
		MaxLength:             limit(r, found["MaxLength"], what, strconv.Atoi),
		MinValue:              limit(r, found["MinValue"], what, number),
		MaxValue:              limit(r, found["MaxValue"], what, number),
	}
	if d := found["Default"]; d != nil {
		p.Default, p.HasDefault = r.bare(d, what), true
	}
	if echo := found["NoEcho"]; echo != nil {
		p.NoEcho = r.bare(echo, what) == "true"
	}
	if values := found["AllowedValues"]; values != nil {
		if values.Kind != yaml.SequenceNode {
			r.fail(values, "AllowedValues of %s has to be a list", what)
		}
		for _, v := range values.Content {
			p.AllowedValues = append(p.AllowedValues, r.bare(v, what))
		}
	}
	if p.AllowedPattern != "" {
		var err error
		if p.pattern, err = whole(p.AllowedPattern); err != nil {
			r.fail(found["AllowedPattern"], "AllowedPattern of %s: %v", what, err)
		}
	}
	for _, forOthers := range constraintsOfOtherTypes(p.Type) {
		if found[forOthers] != nil {
			r.fail(found[forOthers], "%s of %s is not for the type %s", forOthers, what, p.Type)
		}
	}
	if !slices.Contains([]string{"String", "Number", "CommaDelimitedList"}, p.Type) {
		r.fail(n, "%s: the type %q is not known here", what, p.Type)
	}
	return p
}

func constraintsOfOtherTypes(t string) []string {
	switch t {
	case "Number":
		return []string{"MinLength", "MaxLength", "AllowedPattern"}
	case "String":
		return []string{"MinValue", "MaxValue"}
	}
	return []string{"MinLength", "MaxLength", "MinValue", "MaxValue"}
}

// bare is a scalar as text: 90 and true are "90" and "true".
func (r *reader) bare(n *yaml.Node, what string) string {
	text, ok := scalarText(r.value(n))
	if !ok {
		r.fail(n, "%s: text or a number is expected", what)
	}
	return text
}

func limit[N any](r *reader, n *yaml.Node, what string, parse func(string) (N, error)) *N {
	if n == nil {
		return nil
	}
	value, err := parse(r.bare(n, what))
	if err != nil {
		r.fail(n, "%s: %s is no number", what, n.Value)
		return nil
	}
	return &value
}

var numeral = regexp.MustCompile(`^[+-]?[0-9]+(\.[0-9]+)?$`)

// number is stricter than Go, which takes inf and 0x10 too.
func number(text string) (float64, error) {
	if !numeral.MatchString(text) {
		return 0, fmt.Errorf("%q is no number", text)
	}
	return strconv.ParseFloat(text, 64)
}

// refused is why CloudFormation does not take the value, or empty. A list is checked item by item; an AllowedPattern has to match the whole of it, anchors or not.
func (p Parameter) refused(value string) string {
	for _, item := range p.items(value) {
		if why := p.refusedItem(item); why != "" {
			if p.ConstraintDescription != "" {
				why += " (" + p.ConstraintDescription + ")"
			}
			if p.NoEcho {
				return why
			}
			return fmt.Sprintf("%q %s", item, why)
		}
	}
	return ""
}

func (p Parameter) refusedItem(value string) string {
	if p.Type == "Number" {
		n, err := number(value)
		switch {
		case err != nil:
			return "is no number"
		case p.MinValue != nil && n < *p.MinValue:
			return fmt.Sprintf("is less than %v", *p.MinValue)
		case p.MaxValue != nil && n > *p.MaxValue:
			return fmt.Sprintf("is more than %v", *p.MaxValue)
		}
	}
	if p.MinLength != nil && utf8.RuneCountInString(value) < *p.MinLength {
		return fmt.Sprintf("is shorter than %d characters", *p.MinLength)
	}
	if p.MaxLength != nil && utf8.RuneCountInString(value) > *p.MaxLength {
		return fmt.Sprintf("is longer than %d characters", *p.MaxLength)
	}
	if p.AllowedValues != nil && !slices.Contains(p.AllowedValues, value) {
		return fmt.Sprintf("is none of the allowed values %q", p.AllowedValues)
	}
	if p.pattern != nil && !p.pattern.MatchString(value) {
		return "does not match the pattern " + p.AllowedPattern
	}
	return ""
}

// items are the parts of a list, each without the spaces around it; other values are one item.
func (p Parameter) items(value string) []string {
	if p.Type != "CommaDelimitedList" {
		return []string{value}
	}
	items := strings.Split(value, ",")
	for i := range items {
		items[i] = strings.TrimSpace(items[i])
	}
	return items
}
