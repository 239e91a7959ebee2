package template

import (
	"maps"
	"math"
	"slices"
	"strconv"
)

// Place is where a stack is made. Zero values are us-east-1, 111122223333, aws and "stack".
type Place struct{ Region, Account, Partition, StackName string }

func (p Place) complete() Place {
	for _, d := range []struct {
		field *string
		value string
	}{{&p.Region, "us-east-1"}, {&p.Account, "111122223333"}, {&p.Partition, "aws"}, {&p.StackName, "stack"}} {
		if *d.field == "" {
			*d.field = d.value
		}
	}
	return p
}

// Stack is what a template makes of the parameters given.
type Stack struct {
	Resources  map[string]Resource // by logical ID; what a condition leaves out is not there
	Outputs    map[string]Output   // likewise
	Conditions map[string]bool
	Parameters map[string]string // given, or the default
}

// Output is an output with its functions resolved.
type Output struct{ Value, Description, Export string }

// Resource is a resource with its functions resolved.
type Resource struct {
	ID, Type, DeletionPolicy, UpdateReplacePolicy string
	Properties, Metadata                          map[string]any // string, int, float64, bool, []any and map[string]any; AWS::NoValue is gone with its key
	Uses                                          []string       // logical IDs that it refers to (in the branches taken) or depends on, in order
}

// OfType is every resource of the type, in order of the logical ID.
func (s *Stack) OfType(t string) []Resource {
	var all []Resource
	for _, id := range slices.Sorted(maps.Keys(s.Resources)) {
		if r := s.Resources[id]; r.Type == t {
			all = append(all, r)
		}
	}
	return all
}

// Get is what stands in the properties below the path of map keys and list indexes ("0"), or nil.
func (r Resource) Get(path ...string) any {
	var at any = r.Properties
	for _, key := range path {
		switch within := at.(type) {
		case map[string]any:
			at = within[key]
		case []any:
			i, err := strconv.Atoi(key)
			if err != nil || i < 0 || i >= len(within) {
				return nil
			}
			at = within[i]
		default:
			return nil
		}
	}
	return at
}

// Text is Get where it is text, a number or a boolean, as text; otherwise empty.
func (r Resource) Text(path ...string) string {
	text, _ := scalarText(r.Get(path...))
	return text
}

// Int is Get where it is a whole number, or text that is one: a Ref to a Number is text.
func (r Resource) Int(path ...string) (int, bool) {
	switch v := r.Get(path...).(type) {
	case int:
		return v, true
	case float64:
		return int(v), v == math.Trunc(v)
	case string:
		i, err := strconv.Atoi(v)
		return i, err == nil
	}
	return 0, false
}

func scalarText(x any) (string, bool) {
	switch v := x.(type) {
	case string:
		return v, true
	case int:
		return strconv.Itoa(v), true
	case float64:
		return strconv.FormatFloat(v, 'f', -1, 64), true
	case bool:
		return strconv.FormatBool(v), true
	}
	return "", false
}
