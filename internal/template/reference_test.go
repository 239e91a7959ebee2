package template

import (
	"strings"
	"testing"
)

// Each value is as the page of the type has it under "Return values" in the CloudFormation template reference; what AWS invents is checked for what names it.
func TestValuesOfResources(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct{ resource, expression, want string }{
		{`{Type: AWS::DynamoDB::Table, Properties: {TableName: t}}`, `!Ref R`, "t"},
		{`{Type: AWS::DynamoDB::Table, Properties: {TableName: !Sub 't-${Word}'}}`, `!GetAtt R.Arn`, "arn:aws-cn:dynamodb:cn-north-1:444455556666:table/t-w"},
		{`{Type: AWS::SQS::Queue, Properties: {QueueName: q}}`, `!Ref R`, "https://sqs.cn-north-1.amazonaws.com.cn/444455556666/q"},
		{`{Type: AWS::SQS::Queue, Properties: {QueueName: q}}`, `!GetAtt R.QueueUrl`, "https://sqs.cn-north-1.amazonaws.com.cn/444455556666/q"},
		{`{Type: AWS::SQS::Queue, Properties: {QueueName: q}}`, `!GetAtt R.Arn`, "arn:aws-cn:sqs:cn-north-1:444455556666:q"},
		{`{Type: AWS::SQS::Queue, Properties: {QueueName: q}}`, `!GetAtt R.QueueName`, "q"},
		{`{Type: AWS::SQS::Queue}`, `!GetAtt R.QueueName`, "app-R-P6JS546RUTA3"},
		{`{Type: AWS::SQS::Queue, Properties: {QueueName: !Ref 'AWS::NoValue'}}`, `!GetAtt R.QueueName`, "app-R-P6JS546RUTA3"},
		{`{Type: AWS::Lambda::Function, Properties: {FunctionName: f}}`, `!Ref R`, "f"},
		{`{Type: AWS::Lambda::Function, Properties: {FunctionName: f}}`, `!GetAtt R.Arn`, "arn:aws-cn:lambda:cn-north-1:444455556666:function:f"},
		{`{Type: AWS::Logs::LogGroup, Properties: {LogGroupName: /aws/f}}`, `!Ref R`, "/aws/f"},
		{`{Type: AWS::Logs::LogGroup, Properties: {LogGroupName: /aws/f}}`, `!GetAtt R.Arn`, "arn:aws-cn:logs:cn-north-1:444455556666:log-group:/aws/f:*"},
		{`{Type: AWS::Events::Rule, Properties: {Name: r}}`, `!Ref R`, "r"},
		{`{Type: AWS::Events::Rule, Properties: {Name: r, EventBusName: default}}`, `!GetAtt R.Arn`, "arn:aws-cn:events:cn-north-1:444455556666:rule/r"},
		{`{Type: AWS::IAM::Role}`, `!Ref R`, "app-R-P6JS546RUTA3"},
		{`{Type: AWS::IAM::Role}`, `!GetAtt R.Arn`, "arn:aws-cn:iam::444455556666:role/app-R-P6JS546RUTA3"},
		{`{Type: AWS::IAM::Role, Properties: {RoleName: r, Path: /p/}}`, `!GetAtt R.Arn`, "arn:aws-cn:iam::444455556666:role/p/r"},
		{`{Type: AWS::IAM::ManagedPolicy, Properties: {ManagedPolicyName: p}}`, `!Ref R`, "arn:aws-cn:iam::444455556666:policy/p"},
		{`{Type: AWS::SNS::Topic, Properties: {TopicName: t}}`, `!Ref R`, "arn:aws-cn:sns:cn-north-1:444455556666:t"},
		{`{Type: AWS::SNS::Topic, Properties: {TopicName: t}}`, `!GetAtt R.TopicName`, "t"},
		{`{Type: AWS::ApiGateway::RestApi}`, `!Ref R`, "invented-R"},
		{`{Type: AWS::ApiGateway::RestApi}`, `!GetAtt R.RestApiId`, "invented-R"},
		{`{Type: AWS::ApiGateway::RestApi}`, `!GetAtt R.RootResourceId`, "invented-R-RootResourceId"},
		{`{Type: AWS::ApiGateway::Resource}`, `!Ref R`, "invented-R"},
		{`{Type: AWS::ApiGateway::Deployment}`, `!Ref R`, "invented-R"},
		{`{Type: AWS::ApiGateway::Stage, Properties: {StageName: prod}}`, `!Ref R`, "prod"},
		{`{Type: AWS::WAFv2::WebACL, Properties: {Name: w, Scope: REGIONAL}}`, `!Ref R`, "w|invented-R|REGIONAL"},
		{`{Type: AWS::WAFv2::WebACL, Properties: {Name: w, Scope: REGIONAL}}`, `!GetAtt R.Arn`, "arn:aws-cn:wafv2:cn-north-1:444455556666:regional/webacl/w/invented-R"},
		{`{Type: AWS::WAFv2::WebACL, Properties: {Name: w, Scope: CLOUDFRONT}}`, `!GetAtt R.Arn`, "arn:aws-cn:wafv2:cn-north-1:444455556666:global/webacl/w/invented-R"},
		{`{Type: AWS::Scheduler::Schedule, Properties: {Name: s}}`, `!Ref R`, "s"},
		{`{Type: AWS::Scheduler::Schedule, Properties: {Name: s}}`, `!GetAtt R.Arn`, "arn:aws-cn:scheduler:cn-north-1:444455556666:schedule/default/s"},
		{`{Type: AWS::Scheduler::Schedule, Properties: {Name: s, GroupName: g}}`, `!GetAtt R.Arn`, "arn:aws-cn:scheduler:cn-north-1:444455556666:schedule/g/s"},
		{`{Type: AWS::CloudWatch::Alarm, Properties: {AlarmName: a}}`, `!Ref R`, "a"},
		{`{Type: AWS::CloudWatch::Alarm, Properties: {AlarmName: a}}`, `!GetAtt R.Arn`, "arn:aws-cn:cloudwatch:cn-north-1:444455556666:alarm:a"},
		{`{Type: AWS::CloudWatch::Dashboard, Properties: {DashboardName: d}}`, `!Ref R`, "d"},
		{`{Type: X::Y}`, `!Ref R`, "invented-R"},
		{`{Type: X::Y}`, `!GetAtt R.Outputs.Name`, "invented-R-Outputs-Name"},
	} {
		t.Run(tt.expression+" of "+tt.resource, func(t *testing.T) {
			t.Parallel()
			parsed := mustParse(t, "Parameters: {Word: {Type: String, Default: w}}\nResources:\n  R: "+tt.resource+"\n  S: {Type: 'X::Y', Properties: {V: "+tt.expression+"}}")
			stack, err := parsed.Resolve(nil, Place{Region: "cn-north-1", Account: "444455556666", Partition: "aws-cn", StackName: "app"})
			if err != nil {
				t.Fatal(err)
			}
			if got := stack.Resources["S"].Text("V"); got != tt.want {
				t.Errorf("got %s, want %s", got, tt.want)
			}
		})
	}
}

func TestInventedNamesAreShortEnough(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("L", 60)
	got := mustResolve(t, "Resources:\n  "+long+": {Type: 'AWS::IAM::Role'}\n  S: {Type: 'X::Y', Properties: {V: !Ref "+long+"}}", nil).Resources["S"].Text("V")
	if len(got) != 64 || !strings.HasPrefix(got, "stack-LLL") {
		t.Errorf("the role is called %s, of %d characters", got, len(got))
	}
}

func TestRuleOfAnotherBus(t *testing.T) {
	t.Parallel()
	wantRefused(t, "Resources: {R: {Type: 'AWS::Events::Rule', Properties: {EventBusName: b}}, S: {Type: 'X::Y', Properties: {V: !Ref R}}}", nil, "R is a rule of another bus")
}

// To say the name of a resource, its properties are looked at a second time, from where it is referred to.
func TestNamesMadeOfOtherResources(t *testing.T) {
	t.Parallel()
	const text = "Resources: {A: {Type: 'AWS::SQS::Queue', Properties: {QueueName: !Sub '%-x'}}, B: {Type: 'X::Y'}, C: {Type: 'X::Y', Properties: {V: !GetAtt A.QueueName}}}"
	got := mustResolve(t, strings.Replace(text, "%", "${B}", 1), nil).Resources["C"]
	if len(got.Uses) != 1 || got.Uses[0] != "A" || got.Text("V") != "invented-B-x" {
		t.Errorf("C uses %v for %s, want A for invented-B-x", got.Uses, got.Text("V"))
	}
	wantRefused(t, strings.Replace(text, "%", "${Nothing}", 1), nil, "Resources/A/Properties/QueueName/Fn::Sub/Ref: Nothing does not exist")
}
