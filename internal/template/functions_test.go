package template

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// around is a template in which one property of one resource is looked at.
const around = `
Parameters:
  Word: {Type: String, Default: abc}
  Count: {Type: Number, Default: 1}
  List: {Type: CommaDelimitedList, Default: 'a, b,c'}
  Key: {Type: String, Default: eu}
Mappings:
  Sizes: {eu: {memory: 512, zones: [x, y]}, 111122223333: {memory: 1}}
Conditions:
  Always: !Equals [a, a]
  Never: !Not [!Condition Always]
Resources:
  Queue: {Type: 'AWS::SQS::Queue', Properties: {QueueName: q}}
  LeftOut: {Type: 'AWS::SQS::Queue', Condition: Never}
  Subject:
    Type: Custom::Subject
    Properties:
      Value: `

func mustParse(t *testing.T, text string) *Template {
	t.Helper()
	parsed, err := Parse([]byte(text))
	if err != nil {
		t.Fatal(err)
	}
	return parsed
}

func mustResolve(t *testing.T, text string, parameters map[string]string) *Stack {
	t.Helper()
	stack, err := mustParse(t, text).Resolve(parameters, Place{})
	if err != nil {
		t.Fatal(err)
	}
	return stack
}

func TestFunctions(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name, expression string
		want             any
	}{
		{"text", `plain`, "plain"},
		{"numbers stay numbers", `[1, -2, 0, 0.5]`, []any{1, -2, 0, 0.5}},
		{"booleans stay booleans", `[true, False]`, []any{true, false}},
		{"what is quoted is text", `['1', "true", 'yes']`, []any{"1", "true", "yes"}},
		{"a date is text", `2012-10-17`, "2012-10-17"},
		{"Ref of a String", `!Ref Word`, "abc"},
		{"Ref of a Number is text", `!Ref Count`, "1"},
		{"Ref of a list, without spaces", `!Ref List`, []any{"a", "b", "c"}},
		{"Ref, long", `{Ref: Word}`, "abc"},
		{"pseudo parameters", `[!Ref 'AWS::Region', !Ref 'AWS::AccountId', !Ref 'AWS::Partition', !Ref 'AWS::URLSuffix', !Ref 'AWS::StackName']`,
			[]any{"us-east-1", "111122223333", "aws", "amazonaws.com", "stack"}},
		{"the stack's ID", `!Ref AWS::StackId`, "arn:aws:cloudformation:us-east-1:111122223333:stack/stack/00000000-0000-4000-8000-000000000000"},
		{"GetAtt", `!GetAtt Queue.Arn`, "arn:aws:sqs:us-east-1:111122223333:q"},
		{"GetAtt of a list", `!GetAtt [Queue, Arn]`, "arn:aws:sqs:us-east-1:111122223333:q"},
		{"GetAtt, long", `{'Fn::GetAtt': [Queue, Arn]}`, "arn:aws:sqs:us-east-1:111122223333:q"},
		{"GetAtt, long with a dot", `{'Fn::GetAtt': Queue.Arn}`, "arn:aws:sqs:us-east-1:111122223333:q"},
		{"Sub as Ref and GetAtt", `!Sub 'a-${Word}-${AWS::Region}-${Queue.QueueName}'`, "a-abc-us-east-1-q"},
		{"Sub of a literal", `!Sub '${!Word}-${Word}'`, "${Word}-abc"},
		{"Sub without variables", `!Sub 'costs $5'`, "costs $5"},
		{"Sub with a map, which comes first", `!Sub ['${Word}-${Other}', {Word: !Join ['', [x, y]], Other: 7}]`, "xy-7"},
		{"Sub, long", `{'Fn::Sub': '${Word}'}`, "abc"},
		{"Sub over lines", "!Sub |\n        one ${Word}\n        two", "one abc\ntwo"},
		{"Join", `!Join [':', [a, !Ref Word, 3, true]]`, "a:abc:3:true"},
		{"Join of a list parameter", `!Join ['+', !Ref List]`, "a+b+c"},
		{"Join leaves out NoValue", `!Join [',', [a, !Ref 'AWS::NoValue', b]]`, "a,b"},
		{"If, true", `!If [Always, a, b]`, "a"},
		{"If, false", `!If [Never, a, b]`, "b"},
		{"If, nested", `!If [Never, a, !If [Always, {X: !Ref Word}, c]]`, map[string]any{"X": "abc"}},
		{"Select", `!Select [1, [a, b]]`, "b"},
		{"Select by parameter", `!Select [!Ref Count, !Ref List]`, "b"},
		{"Split", `!Split ['-', 'a-b-']`, []any{"a", "b", ""}},
		{"Select of Split", `!Select [5, !Split [':', !GetAtt Queue.Arn]]`, "q"},
		{"FindInMap keeps a number", `!FindInMap [Sizes, eu, memory]`, 512},
		{"FindInMap of a list, by parameter", `!FindInMap [Sizes, !Ref Key, zones]`, []any{"x", "y"}},
		{"FindInMap by account", `!FindInMap [Sizes, !Ref 'AWS::AccountId', memory]`, 1},
		{"Base64", `{'Fn::Base64': !Sub '${Word}'}`, "YWJj"},
		{"NoValue removes a key", `{A: 1, B: !Ref 'AWS::NoValue', C: !If [Never, 2, !Ref 'AWS::NoValue']}`, map[string]any{"A": 1}},
		{"NoValue removes an item", `[1, !If [Always, !Ref 'AWS::NoValue', 2], 3]`, []any{1, 3}},
		{"NoValue removes the property", `!Ref AWS::NoValue`, nil},
		{"a policy's Condition is no function", `{Condition: {StringEquals: {a: !Ref Word}}}`, map[string]any{"Condition": map[string]any{"StringEquals": map[string]any{"a": "abc"}}}},
		{"what the other branch would need is not asked", `!If [Always, a, !Select [9, !Ref List]]`, "a"},
		{"a resource that is left out, in the other branch", `!If [Never, !GetAtt LeftOut.Arn, b]`, "b"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			got := mustResolve(t, around+tt.expression, nil).Resources["Subject"].Get("Value")
			if text, ok := got.(string); ok {
				got = strings.TrimSuffix(text, "\n")
			}
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestFunctionsRefused(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct{ expression, want string }{
		{`!Ref Nothing`, "Resources/Subject/Properties/Value/Ref: Nothing does not exist"},
		{`!Ref AWS::NotificationARNs`, "pseudo parameter AWS::NotificationARNs is not known here"},
		{`{Ref: [a]}`, "a name is expected"},
		{`!GetAtt Nothing.Arn`, "Nothing does not exist"},
		{`!GetAtt Word.Arn`, "Word does not exist"},
		{`!GetAtt Queue`, "no attribute of Queue is named"},
		{`!GetAtt Queue.Colour`, "Queue is a AWS::SQS::Queue, which has no attribute Colour"},
		{`!Sub '${Nothing}'`, "Nothing does not exist"},
		{`!Sub '${Nothing.Arn}'`, "Nothing does not exist"},
		{`!Sub '${Word'`, "${Word is no variable"},
		{`!Sub '${Wo rd}'`, "${Wo rd} is no variable"},
		{`!Sub '${List}'`, "text is expected"},
		{`!Sub [!Ref Word, {}]`, "literal text and a mapping of variables are expected"},
		{`!Join [!Ref Word, [a]]`, "the delimiter has to be literal text"},
		{`!Join [',', !Ref Word]`, "a list is expected"},
		{`!Join [',', [[a]]]`, "a list of texts is expected"},
		{`!Join [',']`, "2 arguments in a list are expected"},
		{`!If [Maybe, a, b]`, "condition Maybe does not exist"},
		{`!If [Always, a]`, "3 arguments in a list are expected"},
		{`!If [Always, a, !Ref Nothing]`, "Value/Fn::If/2/Ref: Nothing does not exist"},
		{`!If [Always, a, !Join [b]]`, "2 arguments in a list are expected"},
		{`!Select [3, !Ref List]`, "index 3 is not in a list of 3"},
		{`!Select [-1, !Ref List]`, "index -1 is not in a list of 3"},
		{`!Split ['', abc]`, "the delimiter has to be literal text"},
		{`!FindInMap [Shapes, eu, memory]`, "mapping Shapes does not exist"},
		{`!FindInMap [Sizes, us, memory]`, "mapping Sizes has no key us"},
		{`!Equals [a, b]`, "this function stands in conditions and rules only"},
		{`!Condition Always`, "Condition stands where a value is expected"},
		{`{'Fn::ImportValue': x}`, "this function is not known here"},
		{`{'Fn::Sub': a, Other: b}`, "Fn::Sub stands beside other keys"},
		{`!Join [',', [!Ref LeftOut]]`, "Unresolved resource dependencies: condition Never leaves out LeftOut"},
		{`!Sub ['${x}', {x: !Ref 'AWS::NoValue'}]`, "text is expected"},
		{`!Sub [a, b, c]`, "2 arguments in a list are expected"},
		// One mistake is one message, however deep it stands.
		{`!Split [',', !Join ['', [!Ref Nothing]]]`, "Nothing does not exist"},
		{`!Select [0, !Split [',', !Ref Nothing]]`, "Nothing does not exist"},
		{`!Select [!Ref Nothing, !Ref List]`, "Nothing does not exist"},
		{`!FindInMap [Sizes, !Ref Nothing, memory]`, "Nothing does not exist"},
		{`{'Fn::Base64': !Sub '${Nothing}'}`, "Nothing does not exist"},
		{`!GetAtt [Queue, !Ref Nothing]`, "Nothing does not exist"},
	} {
		t.Run(tt.expression, func(t *testing.T) {
			t.Parallel()
			wantRefused(t, around+tt.expression, nil, tt.want)
		})
	}
}

// wantRefused wants these problems and no others.
func wantRefused(t *testing.T, text string, parameters map[string]string, want ...string) {
	t.Helper()
	stack, err := mustParse(t, text).Resolve(parameters, Place{})
	if err == nil || stack != nil {
		t.Fatalf("resolved to %v, want %q", stack, want)
	}
	lines := strings.Split(err.Error(), "\n")
	if len(lines) != len(want) {
		t.Fatalf("problems:\n%v\nwant %d: %q", err, len(want), want)
	}
	for i, problem := range want {
		if !strings.Contains(lines[i], problem) {
			t.Errorf("problem %d is %q, want %q", i, lines[i], problem)
		}
	}
}
