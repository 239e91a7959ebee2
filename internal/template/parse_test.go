package template

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
)

func TestParse(t *testing.T) {
	t.Parallel()
	got := mustParse(t, `
AWSTemplateFormatVersion: 2010-09-09
Description: what it is
Metadata:
  AWS::CloudFormation::Interface:
    ParameterGroups:
      - Label: {default: First}
        Parameters: [Zulu, Alpha]
    ParameterLabels: {Alpha: {default: The first}}
Parameters:
  Zulu: {Type: Number, Default: 90, AllowedValues: [1, 90], MinValue: 0.5, MaxValue: 100}
  Alpha: {Type: String, MinLength: 1, MaxLength: 3, AllowedPattern: '[a-z]*', ConstraintDescription: small, Description: a word, NoEcho: true}
Mappings: {Sizes: {eu: {memory: 512}}}
Conditions:
  Always: !Equals [!Ref Alpha, a]
Rules:
  One: {Assertions: [{Assert: !Not [!Equals [!Ref Alpha, b]], AssertDescription: not b}]}
Resources:
  Table:
    Type: AWS::DynamoDB::Table
    Condition: Always
    DependsOn: Topic
    DeletionPolicy: RetainExceptOnCreate
    UpdateReplacePolicy: Retain
    Metadata: {Why: !If [Always, a, b]}
    Properties: {Name: !Sub '${Alpha}', Of: !GetAtt Topic.A.B}
  Topic: {Type: 'AWS::SNS::Topic', DependsOn: [Table]}
Outputs:
  Name: {Value: !Ref Table, Export: {Name: x}}
`)
	one, three, half, hundred := 1, 3, 0.5, 100.0
	want := &Template{
		Description: "what it is",
		Order:       []string{"Zulu", "Alpha"},
		Groups:      []Group{{"First", []string{"Zulu", "Alpha"}}},
		Labels:      map[string]string{"Alpha": "The first"},
		Metadata:    got.Metadata,
		Parameters: map[string]Parameter{
			"Zulu": {Name: "Zulu", Type: "Number", Default: "90", HasDefault: true, AllowedValues: []string{"1", "90"}, MinValue: &half, MaxValue: &hundred},
			"Alpha": {Name: "Alpha", Type: "String", MinLength: &one, MaxLength: &three, AllowedPattern: "[a-z]*", ConstraintDescription: "small",
				Description: "a word", NoEcho: true},
		},
		Mappings:   map[string]any{"Sizes": map[string]any{"eu": map[string]any{"memory": 512}}},
		Conditions: map[string]any{"Always": map[string]any{"Fn::Equals": []any{map[string]any{"Ref": "Alpha"}, "a"}}},
		Rules: map[string]any{"One": map[string]any{"Assertions": []any{map[string]any{
			"Assert":            map[string]any{"Fn::Not": []any{map[string]any{"Fn::Equals": []any{map[string]any{"Ref": "Alpha"}, "b"}}}},
			"AssertDescription": "not b",
		}}}},
		Resources: map[string]Raw{
			"Table": {
				Type: "AWS::DynamoDB::Table", Condition: "Always", DependsOn: []string{"Topic"}, DeletionPolicy: "RetainExceptOnCreate", UpdateReplacePolicy: "Retain",
				Metadata: map[string]any{"Why": map[string]any{"Fn::If": []any{"Always", "a", "b"}}},
				Properties: map[string]any{
					"Name": map[string]any{"Fn::Sub": "${Alpha}"},
					"Of":   map[string]any{"Fn::GetAtt": []any{"Topic", "A.B"}},
				},
				Line: 19,
			},
			"Topic": {Type: "AWS::SNS::Topic", DependsOn: []string{"Table"}, Metadata: map[string]any{}, Properties: map[string]any{}, Line: 27},
		},
		Outputs: map[string]any{"Name": map[string]any{"Value": map[string]any{"Ref": "Table"}, "Export": map[string]any{"Name": "x"}}},
	}
	if diff := cmp.Diff(want, got, cmpopts.IgnoreUnexported(Parameter{})); diff != "" {
		t.Error(diff)
	}
}

func TestParseRefuses(t *testing.T) {
	t.Parallel()
	const resources = "Resources: {A: {Type: 'X::Y'}}\n"
	property := func(p string) string { return "Resources:\n  A:\n    Type: X::Y\n    Properties:\n      " + p + "\n" }
	for name, tt := range map[string]struct {
		text string
		want []string
	}{
		"nothing":                    {"", []string{"it is empty"}},
		"no YAML":                    {"a: [", []string{"yaml:"}},
		"two documents":              {resources + "---\n" + resources, []string{"one document"}},
		"a list":                     {"- a", []string{"line 1: the template has to be a mapping"}},
		"no resources":               {"Description: a", []string{"the template has no Resources"}},
		"unknown section":            {resources + "Transform: x", []string{"line 2: the template has an attribute Transform, which is not known"}},
		"unknown version":            {resources + "AWSTemplateFormatVersion: '2011'", []string{"line 2: AWSTemplateFormatVersion has to be"}},
		"unknown tag":                {property("P: !Cidr [a]"), []string{"line 5: tag !Cidr is not known"}},
		"unknown standard tag":       {property("P: !!binary abc"), []string{"line 5: tag !!binary is not known"}},
		"a key twice":                {property("P: 1\n      P: 2"), []string{"line 6: key P is there already, on line 5"}},
		"a key twice, in a flow":     {property("P: {Q: {R: 1, R: 2}}"), []string{"line 5: key R is there already"}},
		"a section twice":            {resources + resources, []string{"line 2: key Resources is there already, on line 1"}},
		"bare yes as a value":        {property("P: yes"), []string{"line 5: CloudFormation reads yes as a boolean: quote it"}},
		"bare On as a key":           {property("On: 1"), []string{"line 5: CloudFormation reads On as a boolean"}},
		"bare On as a condition":     {resources + "Conditions:\n  On: !Equals [a, b]", []string{"line 3: CloudFormation reads On as a boolean"}},
		"bare NO in a list":          {property("P: [NO, off]"), []string{"reads NO as", "reads off as"}},
		"true as a key":              {property("true: 1"), []string{"line 5: key true is no text"}},
		"a number of another base":   {property("P: 0123"), []string{"line 5: 0123 is not everybody's number: quote it"}},
		"a number in groups":         {property("P: 1_000"), []string{"1_000 is not everybody's number"}},
		"a number without end":       {property("P: .inf"), []string{".inf is not everybody's number"}},
		"null":                       {property("P:"), []string{"line 5: CloudFormation takes no null"}},
		"alias":                      {property("P: &a {}\n      Q: *a"), []string{"line 6: CloudFormation takes no aliases"}},
		"merge":                      {property("P: {<<: {}}"), []string{"line 5: CloudFormation does not merge"}},
		"unknown attribute":          {"Resources: {A: {Type: 'X::Y', Colour: red}}", []string{"resource A has an attribute Colour"}},
		"no type":                    {"Resources: {A: {Properties: {}}}", []string{"resource A has no Type"}},
		"a function as a policy":     {"Resources: {A: {Type: 'X::Y', DeletionPolicy: !Ref B}}", []string{"DeletionPolicy of resource A has to be text", "one of"}},
		"unknown policy":             {"Resources: {A: {Type: 'X::Y', UpdateReplacePolicy: RetainExceptOnCreate}}", []string{"UpdateReplacePolicy of resource A has to be one of"}},
		"a function as properties":   {"Resources: {A: {Type: 'X::Y', Properties: !Ref B}}", []string{"Properties of resource A has to be a mapping"}},
		"logical ID":                 {"Resources: {A-B: {Type: 'X::Y'}}", []string{"the name A-B is not alphanumeric"}},
		"a name twice":               {"Parameters: {A: {Type: String}}\n" + resources, []string{"line 2: resource A has the name of a parameter"}},
		"mapping of one level":       {resources + "Mappings: {M: {a: b}}", []string{"mapping M has to be a mapping"}},
		"output without value":       {resources + "Outputs: {O: {Description: d}}", []string{"output O has no Value"}},
		"output's function":          {resources + "Outputs: {O: {Value: a, Description: !Ref A}}", []string{"Description of output O has to be text"}},
		"rule without assertions":    {resources + "Rules: {R: {RuleCondition: !Equals [a, a]}}", []string{"rule R has no Assertions"}},
		"rule with empty assertions": {resources + "Rules: {R: {Assertions: []}}", []string{"have to be a list"}},
		"rule without an assert":     {resources + "Rules: {R: {Assertions: [{AssertDescription: a}]}}", []string{"has no Assert"}},
		"parameter's type":           {resources + "Parameters: {P: {Type: Text}}", []string{`the type "Text" is not known here`}},
		"parameter's attribute":      {resources + "Parameters: {P: {Type: String, Max: 1}}", []string{"parameter P has an attribute Max"}},
		"pattern":                    {resources + "Parameters: {P: {Type: String, AllowedPattern: 'a)|(b'}}", []string{"AllowedPattern of parameter P"}},
		"pattern that Go has not":    {resources + "Parameters: {P: {Type: String, AllowedPattern: '(?=a)b'}}", []string{"AllowedPattern of parameter P"}},
		"limit that is no number":    {resources + "Parameters: {P: {Type: String, MaxLength: a}}", []string{"parameter P: a is no number"}},
		"limit of another type":      {resources + "Parameters: {P: {Type: String, MaxValue: 3}}", []string{"MaxValue of parameter P is not for the type String"}},
		"length of a number":         {resources + "Parameters: {P: {Type: Number, MinLength: 3}}", []string{"MinLength of parameter P is not for the type Number"}},
		"default that is a list":     {resources + "Parameters: {P: {Type: CommaDelimitedList, Default: [a]}}", []string{"parameter P: text or a number is expected"}},
		"allowed value, not a list":  {resources + "Parameters: {P: {Type: String, AllowedValues: a}}", []string{"has to be a list"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got, err := Parse([]byte(tt.text))
			if err == nil || got != nil {
				t.Fatalf("parsed, want %q", tt.want)
			}
			lines := strings.Split(err.Error(), "\n")
			if len(lines) != len(tt.want) {
				t.Fatalf("problems:\n%v\nwant %q", err, tt.want)
			}
			for i, want := range tt.want {
				if !strings.Contains(lines[i], want) {
					t.Errorf("problem %d is %q, want %q", i, lines[i], want)
				}
			}
		})
	}
}

func TestRead(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "t.yaml")
	if _, err := Read(path); err == nil || !strings.Contains(err.Error(), "read template") {
		t.Errorf("a file that is not there: %v", err)
	}
	for text, want := range map[string]string{"Resources: {A: {Type: 'X::Y'}}": "", "Resources: {A: {}}": path + ": parse template: line 1: resource A has no Type"} {
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		got, err := Read(path)
		if want == "" && (err != nil || got.Resources["A"].Type != "X::Y") {
			t.Errorf("read %v, %v", got, err)
		}
		if want != "" && (err == nil || err.Error() != want) {
			t.Errorf("error %v, want %s", err, want)
		}
	}
}
