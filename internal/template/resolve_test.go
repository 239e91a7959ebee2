package template

import (
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestResolve(t *testing.T) {
	t.Parallel()
	const text = `
Parameters: {Mode: {Type: String, Default: full, AllowedValues: [full, small]}}
Conditions:
  Full: !Equals [!Ref Mode, full]
Resources:
  Table: {Type: 'AWS::DynamoDB::Table', DeletionPolicy: Retain, UpdateReplacePolicy: Delete, Properties: {TableName: t}}
  Queue: {Type: 'AWS::SQS::Queue', Condition: Full, Properties: {QueueName: q}}
  Function:
    Type: AWS::Lambda::Function
    DependsOn: Role
    Metadata: {Order: !If [Full, !Ref Log, none]}
    Properties:
      FunctionName: f
      Table: !Ref Table
      Queue: !If [Full, !GetAtt Queue.Arn, !Ref 'AWS::NoValue']
      Nested: [{Deep: !Sub '${Queue.Arn}'}]
  Other:
    Type: AWS::Lambda::Function
    Properties: {Queue: !If [Full, !Ref Queue, none], Number: !If [Full, 1, '2']}
  Role: {Type: 'AWS::IAM::Role'}
  Log: {Type: 'AWS::Logs::LogGroup', Properties: {LogGroupName: l}}
Outputs:
  Queue: {Condition: Full, Value: !GetAtt Queue.QueueName, Description: where, Export: {Name: !Sub '${AWS::StackName}-queue'}}
  Table: {Value: !Ref Table}
`
	// In small, only Nested still names the queue.
	wantRefused(t, text, map[string]string{"Mode": "small"},
		"Resources/Function/Properties/Nested/0/Deep/Fn::Sub/Fn::GetAtt: Unresolved resource dependencies: condition Full leaves out Queue")

	got := mustResolve(t, text, nil)
	want := &Stack{
		Parameters: map[string]string{"Mode": "full"},
		Conditions: map[string]bool{"Full": true},
		Outputs:    map[string]Output{"Queue": {Value: "q", Description: "where", Export: "stack-queue"}, "Table": {Value: "t"}},
		Resources: map[string]Resource{
			"Table": {ID: "Table", Type: "AWS::DynamoDB::Table", DeletionPolicy: "Retain", UpdateReplacePolicy: "Delete",
				Properties: map[string]any{"TableName": "t"}, Metadata: map[string]any{}},
			"Queue": {ID: "Queue", Type: "AWS::SQS::Queue", Properties: map[string]any{"QueueName": "q"}, Metadata: map[string]any{}},
			"Function": {ID: "Function", Type: "AWS::Lambda::Function", Metadata: map[string]any{"Order": "l"}, Uses: []string{"Log", "Queue", "Role", "Table"},
				Properties: map[string]any{"FunctionName": "f", "Table": "t", "Queue": "arn:aws:sqs:us-east-1:111122223333:q",
					"Nested": []any{map[string]any{"Deep": "arn:aws:sqs:us-east-1:111122223333:q"}}}},
			"Other": {ID: "Other", Type: "AWS::Lambda::Function", Metadata: map[string]any{}, Uses: []string{"Queue"},
				Properties: map[string]any{"Queue": "https://sqs.us-east-1.amazonaws.com/111122223333/q", "Number": 1}},
			"Role": {ID: "Role", Type: "AWS::IAM::Role", Properties: map[string]any{}, Metadata: map[string]any{}},
			"Log":  {ID: "Log", Type: "AWS::Logs::LogGroup", Properties: map[string]any{"LogGroupName": "l"}, Metadata: map[string]any{}},
		},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	var ids []string
	for _, r := range got.OfType("AWS::Lambda::Function") {
		ids = append(ids, r.ID)
	}
	if diff := cmp.Diff([]string{"Function", "Other"}, ids); diff != "" {
		t.Error(diff)
	}
}

// What a condition leaves out may be referred to by nothing that is deployed; each place is tried while the condition holds, too.
func TestWhatIsLeftOut(t *testing.T) {
	t.Parallel()
	const head = `
Parameters: {With: {Type: String, Default: 'no'}}
Conditions: {Has: !Equals [!Ref With, 'yes'], HasNot: !Not [!Condition Has]}
Resources:
  Gone: {Type: 'AWS::SNS::Topic', Condition: Has, Properties: {TopicName: t}}
  User: `
	for _, tt := range []struct{ name, user, want string }{
		{"Ref", `{Type: 'X::Y', Properties: {V: !Ref Gone}}`, "Resources/User/Properties/V/Ref: "},
		{"GetAtt", `{Type: 'X::Y', Properties: {V: !GetAtt Gone.TopicArn}}`, "Resources/User/Properties/V/Fn::GetAtt: "},
		{"Sub", `{Type: 'X::Y', Properties: {V: !Sub 'a${Gone}'}}`, "Resources/User/Properties/V/Fn::Sub/Ref: "},
		{"Sub of an attribute", `{Type: 'X::Y', Properties: {V: !Sub 'a${Gone.TopicName}'}}`, "Resources/User/Properties/V/Fn::Sub/Fn::GetAtt: "},
		{"Sub's map", `{Type: 'X::Y', Properties: {V: !Sub ['${a}', {a: !Ref Gone}]}}`, "Resources/User/Properties/V/Fn::Sub/a/Ref: "},
		{"DependsOn", `{Type: 'X::Y', DependsOn: Gone}`, "Resources/User/DependsOn: "},
		{"Metadata", `{Type: 'X::Y', Metadata: {V: !Ref Gone}}`, "Resources/User/Metadata/V/Ref: "},
		{"the branch taken", `{Type: 'X::Y', Properties: {V: !If [HasNot, [!If [HasNot, !Ref Gone, a]], b]}}`, "Resources/User/Properties/V/Fn::If/1/0/Fn::If/1/Ref: "},
		{"deep in a list", `{Type: 'X::Y', Properties: {V: [{W: !Join ['', [a, !Ref Gone]]}]}}`, "Resources/User/Properties/V/0/W/Fn::Join/1/Ref: "},
		{"output", "{Type: 'X::Y'}\nOutputs: {O: {Value: !Ref Gone}}", "Outputs/O/Value/Ref: "},
		{"export", "{Type: 'X::Y'}\nOutputs: {O: {Value: a, Export: {Name: !Ref Gone}}}", "Outputs/O/Export/Ref: "},
		{"the branch that is not taken", `{Type: 'X::Y', Properties: {V: !If [Has, !Ref Gone, !If [Has, !Sub '${Gone}', b]]}}`, ""},
		{"what is left out as well", `{Type: 'X::Y', Condition: Has, DependsOn: Gone, Properties: {V: !Ref Gone}}`, ""},
		{"an output that is left out as well", "{Type: 'X::Y'}\nOutputs: {O: {Condition: Has, Value: !Ref Gone}}", ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			mustResolve(t, head+tt.user, map[string]string{"With": "yes"})
			if tt.want != "" {
				wantRefused(t, head+tt.user, nil, tt.want+"Unresolved resource dependencies: condition Has leaves out Gone")
				return
			}
			if got := mustResolve(t, head+tt.user, nil); len(got.Resources["User"].Uses) != 0 {
				t.Errorf("uses %v", got.Resources["User"].Uses)
			}
		})
	}
}

func TestWhatDoesNotExist(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct{ name, text, want string }{
		{"DependsOn", `Resources: {A: {Type: 'X::Y', DependsOn: [B]}}`, "Resources/A/DependsOn: B does not exist"},
		{"a resource's condition", `Resources: {A: {Type: 'X::Y', Condition: C}, B: {Type: 'X::Y', DependsOn: A}}`, "Resources/A: condition C does not exist"},
		{"an output's condition", `{Resources: {A: {Type: 'X::Y'}}, Outputs: {O: {Condition: C, Value: a}}}`, "Outputs/O: condition C does not exist"},
		{"in a resource that is left out", `{Conditions: {C: !Equals [a, b]}, Resources: {A: {Type: 'X::Y', Condition: C, Properties: {V: !Ref B}}}}`, "Properties/V/Ref: B does not exist"},
		{"a condition's condition", `{Conditions: {C: !Not [!Condition D]}, Resources: {A: {Type: 'X::Y'}}}`, "Conditions/C/Fn::Not/Condition: condition D does not exist"},
		{"a resource in a condition", `{Conditions: {C: !Equals [!Ref A, a]}, Resources: {A: {Type: 'X::Y'}}}`, "A is a resource, which cannot be referred to here"},
		{"an output that is a list", `{Resources: {A: {Type: 'X::Y'}}, Outputs: {O: {Value: [a]}}}`, "Outputs/O/Value: text is expected"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			wantRefused(t, tt.text, nil, tt.want)
		})
	}
}

func TestConditions(t *testing.T) {
	t.Parallel()
	const always, never = `!Equals [a, a]`, `!Equals [a, b]`
	for _, tt := range []struct {
		expression string
		want       bool
	}{
		{always, true},
		{never, false},
		{`!Equals [!Ref Number, 20]`, true}, // CloudFormation compares text
		{`!Equals [!Ref Truth, true]`, true},
		{`!Equals [!Join ['', [a, b]], ab]`, true},
		{`!Not [` + never + `]`, true},
		{`!And [` + always + `, ` + always + `]`, true},
		{`!And [` + always + `, ` + never + `]`, false},
		{`!Or [` + never + `, ` + always + `]`, true},
		{`!Or [` + never + `, ` + never + `]`, false},
		{`!Condition Other`, true},
		{`{Condition: Other}`, true},
		{`!And [!Condition Other, !Not [!Condition Other]]`, false},
	} {
		t.Run(tt.expression, func(t *testing.T) {
			t.Parallel()
			got := mustResolve(t, "Parameters: {Number: {Type: Number, Default: 20}, Truth: {Type: String, Default: true}}\nConditions: {Other: !Equals [1, 1], C: "+
				tt.expression+"}\nResources: {A: {Type: 'X::Y', Condition: C}}", nil)
			_, deployed := got.Resources["A"]
			if got.Conditions["C"] != tt.want || deployed != tt.want {
				t.Errorf("condition is %v and the resource deployed is %v, want %v", got.Conditions["C"], deployed, tt.want)
			}
		})
	}
	for expression, want := range map[string]string{
		`a`:                                     "a condition is expected",
		`true`:                                  "a condition is expected",
		`{Condition: Other, Other: a}`:          "a condition is expected",
		`!Not [` + always + `, ` + always + `]`: "1 arguments in a list",
		`!And [` + always + `]`:                 "2 to 10 conditions",
		`!Equals [a]`:                           "2 arguments in a list",
		`!Equals [[a], [a]]`:                    "text is expected",
		`!Contains [[a], a]`:                    "this function is not known here",
		`!Equals [!If [Other, a, b], a]`:        "Fn::If stands in resources and outputs only",
		`!Condition C`:                          "condition C refers to itself",
		`!Not [!Condition D]`:                   "condition C refers to itself",
	} {
		t.Run(expression, func(t *testing.T) {
			t.Parallel()
			wantRefused(t, "Conditions: {Other: !Equals [1, 1], D: {Condition: C}, C: "+expression+"}\nResources: {A: {Type: 'X::Y'}}", nil, want)
		})
	}
}

func TestRules(t *testing.T) {
	t.Parallel()
	const no, yes = "rule R, assertion 0 does not hold: because", ""
	for _, tt := range []struct{ condition, assert, want string }{
		{"", `!Equals [!Ref Word, a]`, yes},
		{"", `!Equals [!Ref Word, b]`, no},
		{"", `!Equals [!Ref 'AWS::Region', us-east-1]`, yes},
		{`!Equals [!Ref Word, b]`, `!Equals [!Ref Word, b]`, yes},
		{`!Equals [!Ref Word, a]`, `!Equals [!Ref Word, b]`, no},
		{"", `!Not [!Equals [!Ref Word, a]]`, no},
		{"", `!Or [!Equals [a, b], !Equals [!Ref Word, a]]`, yes},
		{"", `!And [!Equals [a, b], !Equals [!Ref Word, a]]`, no},
		{"", `!Contains [[a, b], !Ref Word]`, yes},
		{"", `!Contains [[b, c], !Ref Word]`, no},
		{"", `{'Fn::Contains': [!Ref List, y]}`, yes},
		{"", `!EachMemberEquals [[a, a], !Ref Word]`, yes},
		{"", `!EachMemberEquals [[a, b], !Ref Word]`, no},
		{"", `!EachMemberIn [!Ref List, [x, y, z]]`, yes},
		{"", `!EachMemberIn [!Ref List, [x, z]]`, no},
		{"", `{'Fn::ValueOf': [Word, Attribute]}`, "this function is not known here"},
		{"", `!Not [{'Fn::RefAll': 'AWS::EC2::VPC::Id'}]`, "this function is not known here"},
		{"", `!Equals [!Sub '${Word}', a]`, "Fn::Sub is no function for the values of a rule"},
		{"", `!Condition C`, "this function is not known here"},
		{"", `!Equals [!Ref A, a]`, "A is a resource, which cannot be referred to here"},
		{`!Equals [!Ref Word, b]`, `{'Fn::ValueOf': [Word, Attribute]}`, "this function is not known here"}, // although the rule does not apply
	} {
		t.Run(tt.condition+" "+tt.assert, func(t *testing.T) {
			t.Parallel()
			condition := ""
			if tt.condition != "" {
				condition = "\n    RuleCondition: " + tt.condition
			}
			text := "Parameters: {Word: {Type: String, Default: a}, List: {Type: CommaDelimitedList, Default: 'x,y'}}\nConditions: {C: !Equals [a, a]}\n" +
				"Rules:\n  R:" + condition + "\n    Assertions: [{Assert: " + tt.assert + ", AssertDescription: because}]\nResources: {A: {Type: 'X::Y'}}"
			if tt.want == yes {
				mustResolve(t, text, nil)
				return
			}
			wantRefused(t, text, nil, tt.want)
		})
	}
}

func TestCircles(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		`Resources: {A: {Type: 'X::Y', DependsOn: A}}`: "resources wait for each other: A, A",
		`Resources: {A: {Type: 'X::Y', DependsOn: B}, B: {Type: 'X::Y', Properties: {V: !Ref C}}, C: {Type: 'X::Y', Metadata: {V: !GetAtt B.V}}}`: "resources wait for each other: B, C, B",
		`Resources: {A: {Type: 'AWS::SQS::Queue', Properties: {QueueName: !GetAtt A.QueueName}}}`:                                                 "resources wait for each other: A, A",
	} {
		wantRefused(t, text, nil, want)
	}
	// A diamond is no circle.
	mustResolve(t, `Resources: {A: {Type: 'X::Y', DependsOn: [B, C]}, B: {Type: 'X::Y', DependsOn: D}, C: {Type: 'X::Y', DependsOn: D}, D: {Type: 'X::Y'}}`, nil)
}

func TestAccessors(t *testing.T) {
	t.Parallel()
	r := Resource{Properties: map[string]any{"List": []any{map[string]any{"N": 7}, "text"}, "Text": "12", "Float": 3.0, "Half": 0.5, "Yes": true}}
	for _, tt := range []struct {
		path []string
		get  any
		text string
		n    int
		ok   bool
	}{
		{[]string{"List", "0", "N"}, 7, "7", 7, true},
		{[]string{"List", "1"}, "text", "text", 0, false},
		{[]string{"List", "2"}, nil, "", 0, false},
		{[]string{"List", "-1"}, nil, "", 0, false},
		{[]string{"List", "x"}, nil, "", 0, false},
		{[]string{"Text"}, "12", "12", 12, true},
		{[]string{"Text", "more"}, nil, "", 0, false},
		{[]string{"Float"}, 3.0, "3", 3, true},
		{[]string{"Half"}, 0.5, "0.5", 0, false},
		{[]string{"Yes"}, true, "true", 0, false},
		{[]string{"Missing", "0"}, nil, "", 0, false},
		{nil, r.Properties, "", 0, false},
	} {
		n, ok := r.Int(tt.path...)
		if diff := cmp.Diff(tt.get, r.Get(tt.path...)); diff != "" || r.Text(tt.path...) != tt.text || n != tt.n && tt.ok || ok != tt.ok {
			t.Errorf("%v: text %q, number %d %v %s", tt.path, r.Text(tt.path...), n, ok, diff)
		}
	}
}
