package template

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestParameters(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct{ parameter, value, want string }{ // want is empty where the value is taken
		{`{Type: String}`, "", ""},
		{`{Type: String, AllowedValues: [a, b]}`, "b", ""},
		{`{Type: String, AllowedValues: [a, b]}`, "B", `parameter P: "B" is none of the allowed values ["a" "b"]`},
		{`{Type: String, AllowedValues: [true]}`, "true", ""},
		{`{Type: String, AllowedPattern: 'a|bc'}`, "bc", ""},
		{`{Type: String, AllowedPattern: 'a|bc'}`, "abc", `parameter P: "abc" does not match the pattern a|bc`},
		{`{Type: String, AllowedPattern: '[a-z]+'}`, "ab1", `"ab1" does not match`},
		{`{Type: String, AllowedPattern: '[a-z]+'}`, "ab\n", `does not match`},
		{`{Type: String, AllowedPattern: '^[a-z]+$'}`, "ab", ""},
		{`{Type: String, AllowedPattern: '|x'}`, "", ""},
		{`{Type: String, AllowedPattern: 'x', ConstraintDescription: an x}`, "y", `"y" does not match the pattern x (an x)`},
		{`{Type: String, AllowedPattern: 'x', NoEcho: true}`, "secret", `parameter P: does not match the pattern x`},
		{`{Type: String, MinLength: 2, MaxLength: 3}`, "äö", ""},
		{`{Type: String, MinLength: 2, MaxLength: 3}`, "a", "is shorter than 2 characters"},
		{`{Type: String, MinLength: 2, MaxLength: 3}`, "abcd", "is longer than 3 characters"},
		{`{Type: Number, MinValue: 1, MaxValue: 20}`, "20", ""},
		{`{Type: Number, MinValue: 1, MaxValue: 20}`, "0.5", `"0.5" is less than 1`},
		{`{Type: Number, MinValue: 1, MaxValue: 20}`, "21", `"21" is more than 20`},
		{`{Type: Number}`, "-1.5", ""},
		{`{Type: Number}`, "", `"" is no number`},
		{`{Type: Number}`, "0x10", `"0x10" is no number`},
		{`{Type: Number}`, "inf", `"inf" is no number`},
		{`{Type: Number, AllowedValues: [1, 3]}`, "2", `"2" is none of the allowed values ["1" "3"]`},
		{`{Type: CommaDelimitedList, AllowedPattern: '[a-z]'}`, "a, b,c", ""},
		{`{Type: CommaDelimitedList, AllowedPattern: '[a-z]'}`, "a,2", `"2" does not match`},
		{`{Type: CommaDelimitedList, AllowedValues: [a, b]}`, "b,c", `"c" is none of`},
	} {
		t.Run(tt.parameter+" "+tt.value, func(t *testing.T) {
			t.Parallel()
			text := "Parameters: {P: " + tt.parameter + "}\nResources: {A: {Type: 'X::Y', Properties: {V: !Ref P}}}"
			if tt.want != "" {
				wantRefused(t, text, map[string]string{"P": tt.value}, tt.want)
				return
			}
			if got := mustResolve(t, text, map[string]string{"P": tt.value}).Parameters["P"]; got != tt.value {
				t.Errorf("parameter is %q, want %q", got, tt.value)
			}
		})
	}
}

func TestParametersGivenAndNot(t *testing.T) {
	t.Parallel()
	const text = `
Parameters:
  Needed: {Type: String}
  Defaulted: {Type: Number, Default: 90}
  Wrong: {Type: String, Default: x, AllowedValues: [y]}
Conditions: {Set: !Equals [!Ref Needed, a]}
Resources: {A: {Type: 'X::Y', Properties: {V: !Sub '${Needed}'}}}
`
	got := mustResolve(t, text, map[string]string{"Needed": "", "Wrong": "y"})
	if diff := cmp.Diff(map[string]string{"Needed": "", "Defaulted": "90", "Wrong": "y"}, got.Parameters); diff != "" {
		t.Error(diff)
	}
	// Every problem at once, and none that only follows from another: neither the condition nor the property says more about the missing one.
	wantRefused(t, text, map[string]string{"Other": "1", "Defaulted": "many"},
		"parameter Other is unknown", "parameter Needed is missing: it has no default", `parameter Defaulted: "many" is no number`, `parameter Wrong: "x" is none of the allowed values`)
}

func TestPatternsOfManyRepeats(t *testing.T) {
	t.Parallel()
	const names = `none|[a-z]{1,64}(,[a-z\]]{1,64}){0,19}`
	list := func(n int, name string) string { return strings.TrimSuffix(strings.Repeat(name+",", n), ",") }
	long := strings.Repeat("a", 64)
	for _, tt := range []struct {
		pattern, value string
		want           bool
	}{
		{names, "none", true},
		{names, "a", true},
		{names, list(20, long), true},
		{names, list(21, "a"), false},
		{names, "a," + long + "a", false},
		{names, "a,", false},
		{`([a-z]{100}){11}`, strings.Repeat("a", 1100), true},
		{`([a-z]{100}){11}`, strings.Repeat("a", 1099), false},
		{`(([a-z]{1,90}-){2,3}[])}{2}]{1,30}){1,3}`, "a-b-)c-d-e-}]", true},
		{`(([a-z]{1,90}-){2,3}[])}{2}]{1,30}){1,3}`, "a-)", false},
		{`([])]{100}){11}`, strings.Repeat(")]", 550), true},
		{`([^])]{100}){11}`, strings.Repeat("a", 1099) + ")", false},
		{`([^\])]{1,90}-){12}`, list(12, "a-"), true},
		{`([^\])]{1,90}-){12}`, strings.Repeat("]-", 12), false},
		{`([\])]{1,90}){12}(a)`, strings.Repeat("])", 6) + "a", true},
		{`(\)[a-z]{100}){11}`, list(11, ")"+long), false},
	} {
		pattern, err := whole(tt.pattern)
		if err != nil {
			t.Errorf("%s: %v", tt.pattern, err)
		} else if got := pattern.MatchString(tt.value); got != tt.want {
			t.Errorf("%s matches %s: %v", tt.pattern, tt.value, got)
		}
	}
}
