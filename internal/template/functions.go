package template

import (
	"encoding/base64"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// call resolves a function that makes a value.
func (s scope) call(name string, argument any) any {
	if s.section == inRules && name != "Ref" {
		return s.fail("%s is no function for the values of a rule", name)
	}
	s = s.in(name)
	switch name {
	case "Ref":
		if id, ok := argument.(string); ok {
			return s.reference(id)
		}
		return s.fail("a name is expected")
	case "Fn::GetAtt":
		return s.getAtt(argument)
	case "Fn::Sub":
		return s.sub(argument)
	case "Fn::Join":
		return s.join(argument)
	case "Fn::If":
		return s.choose(argument)
	case "Fn::Select":
		return s.pick(argument)
	case "Fn::Split":
		return s.split(argument)
	case "Fn::FindInMap":
		return s.findInMap(argument)
	case "Fn::Base64":
		text, ok := s.text(argument)
		if !ok {
			return broken{}
		}
		return base64.StdEncoding.EncodeToString([]byte(text))
	case "Fn::And", "Fn::Or", "Fn::Not", "Fn::Equals", "Fn::Contains", "Fn::EachMemberEquals", "Fn::EachMemberIn":
		return s.fail("this function stands in conditions and rules only")
	}
	return s.fail("this function is not known here")
}

// arguments are the n arguments of a function as they are written.
func (s scope) arguments(argument any, n int) ([]any, bool) {
	list, ok := argument.([]any)
	if !ok || len(list) != n {
		s.fail("%d arguments in a list are expected", n)
		return nil, false
	}
	return list, true
}

func (s scope) choose(argument any) any {
	args, ok := s.arguments(argument, 3)
	if !ok {
		return broken{}
	}
	if s.section != inStack {
		return s.fail("Fn::If stands in resources and outputs only")
	}
	name, _ := args[0].(string)
	if _, exists := s.t.Conditions[name]; !exists {
		return s.fail("condition %v does not exist", args[0])
	}
	yes, no := s.in("1"), s.in("2")
	if s.condition(name) {
		no.dead().value(args[2])
		return yes.value(args[1])
	}
	yes.dead().value(args[1])
	return no.value(args[2])
}

func (s scope) join(argument any) any {
	args, ok := s.arguments(argument, 2)
	if !ok {
		return broken{}
	}
	delimiter, ok := args[0].(string)
	if !ok {
		return s.fail("the delimiter has to be literal text")
	}
	parts, ok := s.texts(args[1])
	if !ok {
		return broken{}
	}
	return strings.Join(parts, delimiter)
}

func (s scope) split(argument any) any {
	args, ok := s.arguments(argument, 2)
	if !ok {
		return broken{}
	}
	delimiter, ok := args[0].(string)
	if !ok || delimiter == "" {
		return s.fail("the delimiter has to be literal text")
	}
	text, ok := s.text(args[1])
	if !ok {
		return broken{}
	}
	parts := []any{}
	for part := range strings.SplitSeq(text, delimiter) {
		parts = append(parts, part)
	}
	return parts
}

func (s scope) pick(argument any) any {
	args, ok := s.arguments(argument, 2)
	if !ok {
		return broken{}
	}
	index, ok := s.text(args[0])
	list, isList := s.list(args[1])
	if !ok || !isList {
		return broken{}
	}
	i, err := strconv.Atoi(index)
	if err != nil || i < 0 || i >= len(list) {
		return s.failLive("index %s is not in a list of %d", index, len(list))
	}
	return list[i]
}

func (s scope) findInMap(argument any) any {
	args, ok := s.arguments(argument, 3)
	if !ok {
		return broken{}
	}
	var at any = s.t.Mappings
	for i, arg := range args {
		key, ok := s.text(arg)
		if !ok {
			return broken{}
		}
		within, _ := at.(map[string]any)
		if at, ok = within[key]; !ok {
			if i == 0 {
				return s.fail("mapping %s does not exist", key)
			}
			return s.failLive("mapping %v has no key %s", args[0], key)
		}
	}
	return at
}

var (
	substitution = regexp.MustCompile(`\$\{[^}]*\}?`)
	variableName = regexp.MustCompile(`^[A-Za-z0-9_.:]+$`)
)

// sub replaces ${Name} as Ref does, ${Name.Attribute} as Fn::GetAtt does, and ${!Text} by ${Text}; names of the variable map come first.
func (s scope) sub(argument any) any {
	text, plain := argument.(string)
	variables := map[string]any{}
	if !plain {
		args, ok := s.arguments(argument, 2)
		if !ok {
			return broken{}
		}
		literal, isText := args[0].(string)
		given, isMap := args[1].(map[string]any)
		if !isText || !isMap {
			return s.fail("literal text and a mapping of variables are expected")
		}
		text, variables = literal, given
	}
	good := true
	replaced := substitution.ReplaceAllStringFunc(text, func(found string) string {
		inner := strings.TrimSuffix(strings.TrimPrefix(found, "${"), "}")
		if literal, ok := strings.CutPrefix(inner, "!"); ok && strings.HasSuffix(found, "}") {
			return "${" + literal + "}"
		}
		value, ok := s.variable(found, inner, variables)
		good = good && ok
		return value
	})
	if !good {
		return broken{}
	}
	return replaced
}

func (s scope) variable(found, inner string, variables map[string]any) (string, bool) {
	if !strings.HasSuffix(found, "}") || !variableName.MatchString(inner) {
		s.fail("%s is no variable", found)
		return "", false
	}
	if x, ok := variables[inner]; ok {
		return s.in(inner).text(x)
	}
	if id, attribute, ok := strings.Cut(inner, "."); ok {
		return s.text(map[string]any{"Fn::GetAtt": []any{id, attribute}})
	}
	return s.text(map[string]any{"Ref": inner})
}

// truth resolves a function that is true or false: those of conditions, and those of rules.
func (s scope) truth(x any) bool {
	m, _ := x.(map[string]any)
	if len(m) != 1 {
		s.fail("a condition is expected")
		return false
	}
	for function, argument := range m {
		return s.in(function).decide(function, argument)
	}
	return false
}

func (s scope) decide(function string, argument any) bool {
	args, _ := argument.([]any)
	switch {
	case function == "Condition" && s.section == inConditions:
		other, _ := argument.(string)
		if _, exists := s.t.Conditions[other]; !exists {
			s.fail("condition %v does not exist", argument)
			return false
		}
		return s.condition(other)
	case function == "Fn::Not":
		args, ok := s.arguments(argument, 1)
		return ok && !s.truth(args[0])
	case function == "Fn::And" || function == "Fn::Or":
		if len(args) < 2 || len(args) > 10 {
			s.fail("2 to 10 conditions are expected")
			return false
		}
		var values []bool
		for i, arg := range args {
			values = append(values, s.in(strconv.Itoa(i)).truth(arg)) // all of them: each may have something wrong
		}
		if function == "Fn::And" {
			return !slices.Contains(values, false)
		}
		return slices.Contains(values, true)
	case function == "Fn::Equals":
		args, ok := s.arguments(argument, 2)
		if !ok {
			return false
		}
		a, okA := s.text(args[0])
		b, okB := s.text(args[1])
		return okA && okB && a == b
	case s.section == inRules:
		return s.members(function, argument)
	}
	s.fail("this function is not known here")
	return false
}

// members are the functions over lists that rules have.
func (s scope) members(function string, argument any) bool {
	if !slices.Contains([]string{"Fn::Contains", "Fn::EachMemberEquals", "Fn::EachMemberIn"}, function) {
		s.fail("this function is not known here")
		return false
	}
	args, ok := s.arguments(argument, 2)
	if !ok {
		return false
	}
	list, ok := s.texts(args[0])
	if !ok {
		return false
	}
	if function == "Fn::EachMemberIn" {
		among, ok := s.texts(args[1])
		return ok && !slices.ContainsFunc(list, func(member string) bool { return !slices.Contains(among, member) })
	}
	value, ok := s.text(args[1])
	if function == "Fn::Contains" {
		return ok && slices.Contains(list, value)
	}
	return ok && !slices.ContainsFunc(list, func(member string) bool { return member != value })
}
