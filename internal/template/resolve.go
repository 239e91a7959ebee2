package template

import (
	"fmt"
	"maps"
	"slices"
	"strings"
)

// Resolve is the stack that the template makes of the parameters given; others take their defaults. The error names every problem: a parameter that is
// unknown, missing or not allowed; a rule whose assertion fails; a reference to what does not exist, in any branch; a reference to a resource that its condition
// leaves out, in the branches taken ("Unresolved resource dependencies"); a circle of conditions or resources; a function that is not known or stands where
// CloudFormation does not take it.
func (t *Template) Resolve(parameters map[string]string, at Place) (*Stack, error) {
	r := &resolution{
		t: t, at: at.complete(), kinds: kinds(), deciding: map[string]bool{}, naming: map[string]bool{},
		stack: &Stack{Resources: map[string]Resource{}, Outputs: map[string]Output{}, Conditions: map[string]bool{}, Parameters: map[string]string{}},
	}
	r.parameters(parameters)
	for _, name := range slices.Sorted(maps.Keys(t.Conditions)) {
		r.condition(name)
	}
	for _, name := range slices.Sorted(maps.Keys(t.Rules)) {
		r.rule(name)
	}
	for _, id := range slices.Sorted(maps.Keys(t.Resources)) {
		r.resource(id)
	}
	for _, name := range slices.Sorted(maps.Keys(t.Outputs)) {
		r.output(name)
	}
	r.circles()
	if err := r.problems.err(); err != nil {
		return nil, fmt.Errorf("resolve template: %w", err)
	}
	return r.stack, nil
}

// resolution is a stack being made.
type resolution struct {
	t        *Template
	at       Place
	kinds    map[string]kind
	stack    *Stack
	problems problems
	deciding map[string]bool // conditions that are being decided: to meet one again is a circle
	naming   map[string]bool // resources whose name is being resolved, likewise
}

func (r *resolution) parameters(given map[string]string) {
	for _, name := range slices.Sorted(maps.Keys(given)) {
		if _, known := r.t.Parameters[name]; !known {
			r.problems.add("parameter %s is unknown", name)
		}
	}
	for _, name := range r.t.Order {
		p := r.t.Parameters[name]
		value, ok := given[name]
		if !ok && !p.HasDefault {
			r.problems.add("parameter %s is missing: it has no default", name)
			continue
		}
		if !ok {
			value = p.Default
		}
		r.stack.Parameters[name] = value
		if why := p.refused(value); why != "" {
			r.problems.add("parameter %s: %s", name, why)
		}
	}
}

// condition decides a condition once; of a circle it says false, and that it is one.
func (r *resolution) condition(name string) bool {
	if value, decided := r.stack.Conditions[name]; decided {
		return value
	}
	if r.deciding[name] {
		r.problems.add("condition %s refers to itself, directly or through others", name)
		return false
	}
	r.deciding[name] = true
	value := scope{resolution: r, where: "Conditions/" + name, section: inConditions, live: true}.truth(r.t.Conditions[name])
	r.stack.Conditions[name] = value
	return value
}

// rule checks the assertions of a rule. They are read even where the condition of the rule does not hold, so that what is not known here is always found.
func (r *resolution) rule(name string) {
	s := scope{resolution: r, where: "Rules/" + name, section: inRules, live: true}
	rule := r.t.Rules[name].(map[string]any)
	applies := true
	if condition, ok := rule["RuleCondition"]; ok {
		applies = s.in("RuleCondition").truth(condition)
	}
	for i, a := range rule["Assertions"].([]any) {
		assertion := a.(map[string]any)
		before := len(r.problems)
		if s.in(fmt.Sprintf("Assertions/%d", i)).truth(assertion["Assert"]) || !applies || len(r.problems) > before {
			continue
		}
		why, _ := assertion["AssertDescription"].(string)
		r.problems.add("rule %s, assertion %d does not hold: %s", name, i, why)
	}
}

// included says whether the condition of a resource or output lets it in. One that does not exist does, so that nothing more is said of it.
func (r *resolution) included(where, condition string) bool {
	if condition == "" {
		return true
	}
	if _, exists := r.t.Conditions[condition]; !exists {
		r.problems.add("%s: condition %s does not exist", where, condition)
		return true
	}
	return r.condition(condition)
}

func (r *resolution) resource(id string) {
	raw := r.t.Resources[id]
	s := scope{resolution: r, where: "Resources/" + id, section: inStack, uses: map[string]bool{}}
	s.live = r.included(s.where, raw.Condition)
	for _, on := range raw.DependsOn {
		s.in("DependsOn").use(on)
	}
	properties, _ := s.in("Properties").value(raw.Properties).(map[string]any)
	metadata, _ := s.in("Metadata").value(raw.Metadata).(map[string]any)
	if !s.live {
		return
	}
	r.stack.Resources[id] = Resource{
		ID: id, Type: raw.Type, DeletionPolicy: raw.DeletionPolicy, UpdateReplacePolicy: raw.UpdateReplacePolicy,
		Properties: properties, Metadata: metadata, Uses: slices.Sorted(maps.Keys(s.uses)),
	}
}

func (r *resolution) output(name string) {
	raw := r.t.Outputs[name].(map[string]any)
	s := scope{resolution: r, where: "Outputs/" + name, section: inStack, uses: map[string]bool{}}
	condition, _ := raw["Condition"].(string)
	s.live = r.included(s.where, condition)
	var out Output
	out.Description, _ = raw["Description"].(string)
	out.Value, _ = s.in("Value").text(raw["Value"])
	if export, ok := raw["Export"].(map[string]any); ok {
		out.Export, _ = s.in("Export").text(export["Name"])
	}
	if s.live {
		r.stack.Outputs[name] = out
	}
}

// circles finds resources that wait for each other: CloudFormation refuses them ("Circular dependency between resources").
func (r *resolution) circles() {
	done := map[string]bool{}
	var follow func(id string, path []string)
	follow = func(id string, path []string) {
		if i := slices.Index(path, id); i >= 0 {
			r.problems.add("resources wait for each other: %s", strings.Join(append(path[i:], id), ", "))
			return
		}
		if done[id] {
			return
		}
		for _, on := range r.stack.Resources[id].Uses {
			follow(on, append(path[:len(path):len(path)], id))
		}
		done[id] = true
	}
	for _, id := range slices.Sorted(maps.Keys(r.stack.Resources)) {
		follow(id, nil)
	}
}
