package template

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"regexp"
	"slices"

	"gopkg.in/yaml.v3"
)

// Parse reads a template in YAML (or JSON, which is YAML too). The error names every problem with its line: a tag, section or attribute that is not
// known, a key that is there twice, an alias, a null, a bare yes, no, on or off.
func Parse(text []byte) (*Template, error) {
	decoder := yaml.NewDecoder(bytes.NewReader(text))
	var document yaml.Node
	if err := decoder.Decode(&document); errors.Is(err, io.EOF) {
		return nil, errors.New("parse template: it is empty")
	} else if err != nil {
		return nil, fmt.Errorf("parse template: %w", err)
	}
	r := &reader{}
	if err := decoder.Decode(&yaml.Node{}); !errors.Is(err, io.EOF) {
		r.fail(&document, "a template is one document")
	}
	t := r.template(document.Content[0])
	if err := r.problems.err(); err != nil {
		return nil, fmt.Errorf("parse template: %w", err)
	}
	return t, nil
}

func (r *reader) template(root *yaml.Node) *Template {
	sections := r.attributes(root, "the template",
		"AWSTemplateFormatVersion", "Description", "Metadata", "Parameters", "Mappings", "Conditions", "Rules", "!Resources", "Outputs")
	t := &Template{Parameters: map[string]Parameter{}, Resources: map[string]Raw{}, Labels: map[string]string{}}
	if n := sections["AWSTemplateFormatVersion"]; n != nil && n.Value != "2010-09-09" {
		r.fail(n, "AWSTemplateFormatVersion has to be 2010-09-09")
	}
	t.Description = r.literal(sections["Description"], "Description")
	t.Metadata = r.mapping(sections["Metadata"], "Metadata")
	r.console(t)
	for _, p := range r.named(sections["Parameters"], "Parameters") {
		t.Parameters[p.key] = r.parameter(p.key, p.node)
		t.Order = append(t.Order, p.key)
	}
	for _, p := range r.named(sections["Resources"], "Resources") {
		if _, taken := t.Parameters[p.key]; taken {
			r.fail(p.at, "resource %s has the name of a parameter", p.key)
		}
		t.Resources[p.key] = r.resource(p)
	}
	t.Mappings = r.mappings(sections["Mappings"])
	t.Conditions = map[string]any{}
	for _, p := range r.named(sections["Conditions"], "Conditions") {
		t.Conditions[p.key] = r.value(p.node)
	}
	t.Rules = r.rules(sections["Rules"])
	t.Outputs = r.outputs(sections["Outputs"])
	return t
}

var logicalID = regexp.MustCompile(`^[A-Za-z0-9]{1,255}$`)

// named are the entries of a section, whose names CloudFormation wants to be alphanumeric.
func (r *reader) named(n *yaml.Node, section string) []pair {
	if n == nil {
		return nil
	}
	all := r.pairs(n, section)
	for _, p := range all {
		if !logicalID.MatchString(p.key) {
			r.fail(p.at, "%s: the name %s is not alphanumeric", section, p.key)
		}
	}
	return all
}

func (r *reader) resource(p pair) Raw {
	what := "resource " + p.key
	found := r.attributes(p.node, what, "!Type", "Condition", "DependsOn", "DeletionPolicy", "UpdateReplacePolicy", "Metadata", "Properties")
	return Raw{
		Type:                r.literal(found["Type"], "Type of "+what),
		Condition:           r.literal(found["Condition"], "Condition of "+what),
		DependsOn:           r.literals(found["DependsOn"], "DependsOn of "+what),
		DeletionPolicy:      r.oneOf(found["DeletionPolicy"], "DeletionPolicy of "+what, "Delete", "Retain", "RetainExceptOnCreate", "Snapshot"),
		UpdateReplacePolicy: r.oneOf(found["UpdateReplacePolicy"], "UpdateReplacePolicy of "+what, "Delete", "Retain", "Snapshot"),
		Metadata:            r.mapping(found["Metadata"], "Metadata of "+what),
		Properties:          r.mapping(found["Properties"], "Properties of "+what),
		Line:                p.at.Line,
	}
}

func (r *reader) mappings(n *yaml.Node) map[string]any {
	all := map[string]any{}
	for _, p := range r.named(n, "Mappings") {
		keys := map[string]any{}
		for _, first := range r.pairs(p.node, "mapping "+p.key) {
			keys[first.key] = r.mapping(first.node, "mapping "+p.key)
		}
		all[p.key] = keys
	}
	return all
}

func (r *reader) rules(n *yaml.Node) map[string]any {
	all := map[string]any{}
	for _, p := range r.named(n, "Rules") {
		found := r.attributes(p.node, "rule "+p.key, "RuleCondition", "!Assertions")
		all[p.key] = r.value(p.node)
		assertions := found["Assertions"]
		if assertions == nil {
			continue
		}
		if assertions.Kind != yaml.SequenceNode || len(assertions.Content) == 0 {
			r.fail(assertions, "Assertions of rule %s have to be a list", p.key)
			continue
		}
		for _, assertion := range assertions.Content {
			r.literal(r.attributes(assertion, "an assertion of rule "+p.key, "!Assert", "AssertDescription")["AssertDescription"], "AssertDescription")
		}
	}
	return all
}

func (r *reader) outputs(n *yaml.Node) map[string]any {
	all := map[string]any{}
	for _, p := range r.named(n, "Outputs") {
		what := "output " + p.key
		found := r.attributes(p.node, what, "!Value", "Description", "Condition", "Export")
		r.literal(found["Description"], "Description of "+what)
		r.literal(found["Condition"], "Condition of "+what)
		if export := found["Export"]; export != nil {
			r.attributes(export, "Export of "+what, "!Name")
		}
		all[p.key] = r.value(p.node)
	}
	return all
}

func (r *reader) mapping(n *yaml.Node, what string) map[string]any {
	if n == nil {
		return map[string]any{}
	}
	if n.Kind != yaml.MappingNode || isFunction(n) {
		r.fail(n, "%s has to be a mapping", what)
		return nil
	}
	return r.plain(n).(map[string]any)
}

// literal is text in which no function may stand, empty without a node.
func (r *reader) literal(n *yaml.Node, what string) string {
	if n == nil {
		return ""
	}
	before := len(r.problems)
	text, ok := r.value(n).(string)
	if !ok && len(r.problems) == before {
		r.fail(n, "%s has to be text", what)
	}
	return text
}

func (r *reader) literals(n *yaml.Node, what string) []string {
	if n == nil || n.Kind != yaml.SequenceNode {
		if text := r.literal(n, what); text != "" {
			return []string{text}
		}
		return nil
	}
	var all []string
	for _, item := range n.Content {
		all = append(all, r.literal(item, what))
	}
	return all
}

func (r *reader) oneOf(n *yaml.Node, what string, values ...string) string {
	text := r.literal(n, what)
	if n != nil && !slices.Contains(values, text) {
		r.fail(n, "%s has to be one of %q", what, values)
	}
	return text
}

// console reads what a console shows of the parameters. It is metadata, so what does not have the shape is left out here.
func (r *reader) console(t *Template) {
	shown, _ := t.Metadata["AWS::CloudFormation::Interface"].(map[string]any)
	label := func(x any) string {
		m, _ := x.(map[string]any)
		text, _ := m["default"].(string)
		return text
	}
	groups, _ := shown["ParameterGroups"].([]any)
	for _, g := range groups {
		m, _ := g.(map[string]any)
		group := Group{Label: label(m["Label"])}
		names, _ := m["Parameters"].([]any)
		for _, name := range names {
			group.Parameters = append(group.Parameters, fmt.Sprint(name))
		}
		t.Groups = append(t.Groups, group)
	}
	labels, _ := shown["ParameterLabels"].(map[string]any)
	for name, l := range labels {
		t.Labels[name] = label(l)
	}
}
