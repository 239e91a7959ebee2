package template

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
)

type section int

const (
	inStack section = iota // resources and outputs
	inConditions
	inRules
)

// scope is where an expression stands, and so what may stand in it.
type scope struct {
	*resolution
	where   string // for messages: Resources/Alarm/Properties/AlarmActions/0
	section section
	live    bool            // false in the branch that Fn::If does not take and in what a condition leaves out: only what holds for every value is checked there
	quiet   bool            // for a second look: whatever is wrong was said at the first
	uses    map[string]bool // logical IDs that live references name
}

// absent is AWS::NoValue.
type absent struct{}

// broken stands for the value of what was wrong, so that one mistake is one message.
type broken struct{}

func (s scope) in(key string) scope {
	s.where += "/" + key
	return s
}

func (s scope) dead() scope {
	s.live = false
	return s
}

func (s scope) fail(format string, args ...any) any {
	if !s.quiet {
		s.problems.add("%s: %s", s.where, fmt.Sprintf(format, args...))
	}
	return broken{}
}

// failLive is fail for what depends on values: in a branch that is not taken they may be such that nothing fits.
func (s scope) failLive(format string, args ...any) any {
	if s.live {
		return s.fail(format, args...)
	}
	return broken{}
}

// value resolves an expression: to a string, int, float64, bool, []any, map[string]any, absent or broken.
func (s scope) value(x any) any {
	switch x := x.(type) {
	case map[string]any:
		keys := slices.Sorted(maps.Keys(x))
		for _, key := range keys {
			if key != "Ref" && !strings.HasPrefix(key, "Fn::") {
				continue
			}
			if len(keys) > 1 {
				return s.fail("%s stands beside other keys", key)
			}
			return s.call(key, x[key])
		}
		if _, name := x["Condition"].(string); name && len(keys) == 1 {
			return s.fail("Condition stands where a value is expected")
		}
		values := map[string]any{}
		for _, key := range keys {
			if v := s.in(key).value(x[key]); v != (absent{}) {
				values[key] = v
			}
		}
		return values
	case []any:
		return s.items(x)
	}
	return x
}

func (s scope) items(list []any) []any {
	values := []any{}
	for i, item := range list {
		if v := s.in(strconv.Itoa(i)).value(item); v != (absent{}) {
			values = append(values, v)
		}
	}
	return values
}

// text resolves an expression that has to be text, a number or a boolean.
func (s scope) text(x any) (string, bool) {
	value := s.value(x)
	text, ok := scalarText(value)
	if _, known := value.(broken); !ok && !known {
		s.fail("text is expected")
	}
	return text, ok
}

// list resolves an expression that has to be a list.
func (s scope) list(x any) ([]any, bool) {
	value := s.value(x)
	list, ok := value.([]any)
	if _, known := value.(broken); !ok && !known {
		s.fail("a list is expected")
	}
	return list, ok
}

// texts resolves an expression that has to be a list of texts.
func (s scope) texts(x any) ([]string, bool) {
	list, ok := s.list(x)
	texts := []string{}
	for _, item := range list {
		text, one := scalarText(item)
		if _, known := item.(broken); !one && !known {
			s.fail("a list of texts is expected")
		}
		ok = ok && one
		texts = append(texts, text)
	}
	return texts, ok
}
