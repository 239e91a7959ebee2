package deploy_test

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/awsmp/metering/internal/standin"
)

// cloudQuirk is a question to AWS and to moto about CloudFormation and what stands behind it, with the answers that they give. docs/stand-ins.md holds
// the same rows; a changed answer changes both.
type cloudQuirk struct {
	question string
	aws      string
	moto     string
	source   string // where AWS says so
	covered  string // the test that looks at it instead
	answer   func(c cloud, name string) (string, error)
}

// TestCloudFormationQuirks asks moto what it makes of small templates, each about one thing that the stacks rest on.
func TestCloudFormationQuirks(t *testing.T) {
	t.Parallel()
	c := cloud{standin.Moto(t)}
	page := fileText(t, "../docs/stand-ins.md")
	for i, q := range cloudQuirks() {
		t.Run(q.question, func(t *testing.T) {
			t.Parallel()
			got, err := q.answer(c, fmt.Sprintf("quirk-%d", i))
			if err != nil {
				t.Fatal(err)
			}
			if got != q.moto {
				t.Errorf("moto: %s, want %s", got, q.moto)
			}
			row := fmt.Sprintf("| %s | %s | %s | %s | `%s` |\n", q.question, q.aws, q.moto, q.source, q.covered)
			if !testExists(t, q.covered) {
				t.Errorf("there is no %s", q.covered)
			}
			if !strings.Contains(page, row) {
				t.Errorf("docs/stand-ins.md lacks the row\n%s", row)
			}
		})
	}
}

// testExists reports whether a test of the templates has this name.
func testExists(t *testing.T, name string) bool {
	t.Helper()
	files, err := filepath.Glob("*_test.go")
	if err != nil {
		t.Fatal(err)
	}
	return slices.ContainsFunc(files, func(file string) bool {
		text, err := os.ReadFile(file)
		return err == nil && strings.Contains(string(text), "\nfunc "+name+"(t *testing.T) {")
	})
}

const (
	oneQueue = `{Type: AWS::SQS::Queue, Properties: {QueueName: %s}}`
	oneTable = `{Type: AWS::DynamoDB::Table, DeletionPolicy: %s, UpdateReplacePolicy: Retain, Properties: {TableName: %s, BillingMode: PAY_PER_REQUEST,
    AttributeDefinitions: [{AttributeName: a, AttributeType: S}], KeySchema: [{AttributeName: a, KeyType: HASH}]}}`
	oneFunction = `{Type: AWS::Lambda::Function, Properties: {FunctionName: %[1]s, Handler: index.handler, Runtime: python3.12, Role: !GetAtt R.Arn, Timeout: 60,
    ReservedConcurrentExecutions: 1, Code: {ZipFile: 'pass'}, Environment: {Variables: {N: !Ref N}}}}
  R: {Type: AWS::IAM::Role, Properties: {AssumeRolePolicyDocument: {Version: '2012-10-17', Statement: []}}}`
	parameterN = "Parameters:\n  N: {Type: Number, Default: 1, MaxValue: 1, AllowedValues: [1]}\n"
)

func cloudQuirks() []cloudQuirk {
	const guide, reference = "CloudFormation user guide, ", "template reference, "
	return []cloudQuirk{
		{"parameter that its AllowedPattern leaves out", "ValidationError", "accepted", guide + "parameters", "TestWhatTheTemplateTakesTheCodeTakes", func(c cloud, name string) (string, error) {
			return c.accepted(name, "Parameters:\n  P: {Type: String, Default: b, AllowedPattern: 'a+'}\nResources:\n  Q: "+fmt.Sprintf(oneQueue, name))
		}},
		{"number above its MaxValue", "ValidationError", "accepted", guide + "parameters", "TestWhatTheTemplateTakesTheCodeTakes", func(c cloud, name string) (string, error) {
			return c.accepted(name, "Parameters:\n  P: {Type: Number, Default: 3, MaxValue: 2, AllowedValues: [1, 2]}\nResources:\n  Q: "+fmt.Sprintf(oneQueue, name))
		}},
		{"rule whose assertion fails", "ValidationError", "accepted", guide + "rules", "TestWhatATemplateCannotSay", func(c cloud, name string) (string, error) {
			return c.accepted(name, "Rules:\n  R: {Assertions: [{Assert: !Equals [a, b]}]}\nResources:\n  Q: "+fmt.Sprintf(oneQueue, name))
		}},
		{"list item that is AWS::NoValue", "removed", "a null stays", guide + "pseudo parameters", "TestQueuesTakeEvents", func(c cloud, name string) (string, error) {
			if err := c.create(name, "Resources:\n  P: {Type: AWS::IAM::ManagedPolicy, Properties: {ManagedPolicyName: "+name+
				", PolicyDocument: {Version: '2012-10-17', Statement: [{Effect: Allow, Action: 'a:b', Resource: ['arn:aws:s3:::x', !Ref AWS::NoValue]}]}}}"); err != nil {
				return "", err
			}
			out, err := c.query("iam", "GetPolicyVersion", "PolicyArn", "arn:aws:iam::"+motoAccount+":policy/"+name, "VersionId", "v1")
			if strings.Contains(out.text("PolicyVersion", "Document"), `["arn:aws:s3:::x", null]`) {
				return "a null stays", err
			}
			return out.text("PolicyVersion", "Document"), err
		}},
		{"ARN of a log group", "ends in :*", "ends in its name", reference + "AWS::Logs::LogGroup", "TestRolesAllowWhatIsCalledAndNothingElse", func(c cloud, name string) (string, error) {
			if err := c.create(name, "Resources:\n  L: {Type: AWS::Logs::LogGroup, Properties: {LogGroupName: "+name+"}}\nOutputs:\n  O: {Value: !GetAtt L.Arn}"); err != nil {
				return "", err
			}
			got, err := c.output(name)
			if strings.HasSuffix(got, ":log-group:"+name) {
				return "ends in its name", err
			}
			return got, err
		}},
		{"number in a function's environment", "text", "a number", "API reference, EnvironmentResponse", "TestFunctionsStartWithWhatTheyGet", func(c cloud, name string) (string, error) {
			if err := c.create(name, parameterN+"Resources:\n  F: "+fmt.Sprintf(oneFunction, name)); err != nil {
				return "", err
			}
			out, err := c.fetch("lambda", "/2015-03-31/functions/"+name+"/configuration")
			if _, isNumber := out.get("Environment", "Variables", "N").(float64); isNumber {
				return "a number", err
			}
			return fmt.Sprint(out.get("Environment", "Variables", "N")), err
		}},
		{"outputs of a stack that a change set made", "there", "none until another update", "API reference, DescribeStacks", "TestDeployed", func(c cloud, name string) (string, error) {
			body := "Resources:\n  Q: " + fmt.Sprintf(oneQueue, name) + "\nOutputs:\n  O: {Value: there}"
			if _, err := c.query("cloudformation", "CreateChangeSet", "StackName", name, "ChangeSetName", name, "ChangeSetType", "CREATE", "TemplateBody", body); err != nil {
				return "", err
			}
			if _, err := c.query("cloudformation", "ExecuteChangeSet", "StackName", name, "ChangeSetName", name); err != nil {
				return "", err
			}
			first, err := c.output(name)
			if err != nil || first != "" {
				return first, err
			}
			if _, err := c.query("cloudformation", "UpdateStack", "StackName", name, "UsePreviousTemplate", "true"); err != nil {
				return "", err
			}
			if second, err := c.output(name); err != nil || second != "there" {
				return "none after another update", err
			}
			return "none until another update", nil
		}},
		{"update that changes a condition", "makes and removes resources", "makes them when they are listed", guide + "conditions", "TestASwitchOfTheModeLosesNoTable", func(c cloud, name string) (string, error) {
			body := "Parameters:\n  P: {Type: String, Default: a}\nConditions:\n  A: !Equals [!Ref P, a]\n  B: !Equals [!Ref P, b]\nResources:\n" +
				"  A: {Condition: A, " + fmt.Sprintf(oneQueue, name+"-a")[1:] + "\n  B: {Condition: B, " + fmt.Sprintf(oneQueue, name+"-b")[1:]
			if err := c.create(name, body); err != nil {
				return "", err
			}
			if err := c.update(name, body, "P", "b"); err != nil {
				return "", err
			}
			_, unlisted := c.waiting(name + "-b")
			if _, err := c.query("cloudformation", "ListStackResources", "StackName", name); err != nil {
				return "", err
			}
			_, listed := c.waiting(name + "-b")
			if _, old := c.waiting(name + "-a"); unlisted != nil && listed == nil && old == nil {
				return "makes them when they are listed", nil
			}
			return fmt.Sprintf("the new one unlisted: %v, listed: %v", unlisted, listed), nil
		}},
		{"property under a condition that an update changes", "changes", "stays", guide + "conditions", "TestASwitchOfTheModeLosesNoTable", func(c cloud, name string) (string, error) {
			body := "Parameters:\n  P: {Type: String, Default: a}\nConditions:\n  A: !Equals [!Ref P, a]\nResources:\n" +
				"  Q: {Type: AWS::SQS::Queue, Properties: {QueueName: " + name + ", VisibilityTimeout: !If [A, 7, 8]}}"
			if err := c.create(name, body); err != nil {
				return "", err
			}
			if err := c.update(name, body, "P", "b"); err != nil {
				return "", err
			}
			return c.visibility(name)
		}},
		{"property with a parameter in Fn::Sub that an update changes", "changes", "stays", guide + "updating stacks", "TestRolesAllowWhatIsCalledAndNothingElse", func(c cloud, name string) (string, error) {
			body := "Parameters:\n  P: {Type: Number, Default: 7}\nResources:\n  Q: {Type: AWS::SQS::Queue, Properties: {QueueName: " + name + ", VisibilityTimeout: !Sub '${P}'}}"
			if err := c.create(name, body); err != nil {
				return "", err
			}
			if err := c.update(name, body, "P", "8"); err != nil {
				return "", err
			}
			return c.visibility(name)
		}},
		{"log group among its stack's resources, after an update", "there", "missing", "API reference, ListStackResources", "TestDeployed", func(c cloud, name string) (string, error) {
			body := "Parameters:\n  P: {Type: Number, Default: 7}\nResources:\n  L: {Type: AWS::Logs::LogGroup, Properties: {LogGroupName: " + name + ", RetentionInDays: !Ref P}}"
			if err := c.create(name, body); err != nil {
				return "", err
			}
			if err := c.update(name, body, "P", "30"); err != nil {
				return "", err
			}
			out, err := c.query("cloudformation", "ListStackResources", "StackName", name)
			if kind := out.text("StackResourceSummaries", "0", "ResourceType"); kind != "" {
				return kind, err
			}
			return "missing", err
		}},
		{"update of a log group's retention", "another retention", "the old one stays", reference + "AWS::Logs::LogGroup", "TestLogsAreKeptAsAskedFor", func(c cloud, name string) (string, error) {
			body := "Parameters:\n  P: {Type: Number, Default: 7}\nResources:\n  L: {Type: AWS::Logs::LogGroup, Properties: {LogGroupName: " + name + ", RetentionInDays: !Ref P}}"
			if err := c.create(name, body); err != nil {
				return "", err
			}
			if err := c.update(name, body, "P", "30"); err != nil {
				return "", err
			}
			out, err := c.call("logs", "Logs_20140328.DescribeLogGroups", map[string]any{"logGroupNamePrefix": name})
			if days := out.get("logGroups", "0", "retentionInDays"); fmt.Sprint(days) != "7" {
				return fmt.Sprint(days), err
			}
			return "the old one stays", err
		}},
		{"table with RetainExceptOnCreate, its stack deleted", "stays", "goes", reference + "DeletionPolicy attribute", "TestWhatLeavesAStackIsKeptOrNot", func(c cloud, name string) (string, error) {
			return c.kept(name, "RetainExceptOnCreate")
		}},
		{"table with Retain, its stack deleted", "stays", "stays", reference + "DeletionPolicy attribute", "TestWhatLeavesAStackIsKeptOrNot", func(c cloud, name string) (string, error) {
			return c.kept(name, "Retain")
		}},
		{"table renamed, with UpdateReplacePolicy Retain", "both are there", "the old one alone", reference + "UpdateReplacePolicy attribute", "TestWhatLeavesAStackIsKeptOrNot", func(c cloud, name string) (string, error) {
			body := "Parameters:\n  P: {Type: String, Default: " + name + "-a}\nResources:\n  T: " + fmt.Sprintf(oneTable, "Retain", "!Ref P")
			if err := c.create(name, body); err != nil {
				return "", err
			}
			if err := c.update(name, body, "P", name+"-b"); err != nil {
				return "", err
			}
			old, err := c.table(name + "-a")
			if err != nil {
				return "", err
			}
			renamed, err := c.table(name + "-b")
			if err != nil || !old || renamed {
				return fmt.Sprintf("the old one is there: %v, the new one: %v", old, renamed), err
			}
			return "the old one alone", nil
		}},
		{"rule with six targets", "LimitExceededException", "accepted", "EventBridge quotas", "TestTargetsAreConstant", func(c cloud, name string) (string, error) {
			var targets []string
			for i := range 6 {
				targets = append(targets, fmt.Sprintf("{Id: t%d, Arn: !GetAtt Q.Arn}", i))
			}
			return c.accepted(name, "Resources:\n  Q: "+fmt.Sprintf(oneQueue, name)+"\n  R: {Type: AWS::Events::Rule, Properties: {Name: "+name+
				", ScheduleExpression: rate(1 minute), Targets: ["+strings.Join(targets, ", ")+"]}}")
		}},
		{"mapping of a queue that shows messages again before the function's timeout", "InvalidParameterValueException", "accepted", "Lambda developer guide, SQS", "TestQueuesCallFunctionsThatKeepUp", func(c cloud, name string) (string, error) {
			return c.accepted(name, parameterN+"Resources:\n  Q: "+fmt.Sprintf(oneQueue, name)+"\n  F: "+fmt.Sprintf(oneFunction, name)+
				"\n  M: {Type: AWS::Lambda::EventSourceMapping, Properties: {FunctionName: !Ref F, EventSourceArn: !GetAtt Q.Arn}}")
		}},
		{"mapping that may run more than the function's reserved concurrency", "accepted, and throttled", "accepted", "Lambda developer guide, SQS", "TestQueuesCallFunctionsThatKeepUp", func(c cloud, name string) (string, error) {
			return c.accepted(name, parameterN+"Resources:\n  Q: {Type: AWS::SQS::Queue, Properties: {QueueName: "+name+", VisibilityTimeout: 360}}\n  F: "+fmt.Sprintf(oneFunction, name)+
				"\n  M: {Type: AWS::Lambda::EventSourceMapping, Properties: {FunctionName: !Ref F, EventSourceArn: !GetAtt Q.Arn, ScalingConfig: {MaximumConcurrency: 5}}}")
		}},
		{"message to a queue that is mapped to a function", "the function is called", "it stays, received once", "Lambda developer guide, SQS", "TestDeployed", func(c cloud, name string) (string, error) {
			err := c.create(name, parameterN+"Resources:\n  Q: {Type: AWS::SQS::Queue, Properties: {QueueName: "+name+", VisibilityTimeout: 360}}\n  F: "+fmt.Sprintf(oneFunction, name)+
				"\n  M: {Type: AWS::Lambda::EventSourceMapping, Properties: {FunctionName: !Ref F, EventSourceArn: !GetAtt Q.Arn}}")
			if err != nil {
				return "", err
			}
			address := c.endpoint + "/" + motoAccount + "/" + name
			if _, err := c.call("sqs", "AmazonSQS.SendMessage", map[string]any{"QueueUrl": address, "MessageBody": "m"}); err != nil {
				return "", err
			}
			out, err := c.call("sqs", "AmazonSQS.ReceiveMessage", map[string]any{"QueueUrl": address, "AttributeNames": []string{"All"}})
			switch out.text("Messages", "0", "Attributes", "ApproximateReceiveCount") {
			case "":
				return "it is gone", err
			case "2":
				return "it stays, received once", err
			}
			return "it stays", err
		}},
		{"event on a bus with a rule that has a schedule", "not that rule's", "status 500", "EventBridge user guide, rules", "TestDeployed", func(c cloud, name string) (string, error) {
			// On a bus of its own, as the default one is not this test's alone. AWS takes rules with a schedule on the default bus only.
			for _, made := range []struct {
				operation string
				input     map[string]any
			}{
				{"CreateEventBus", map[string]any{"Name": name}},
				{"PutRule", map[string]any{"Name": name, "EventBusName": name, "EventPattern": `{"source":["s"]}`}},
				{"PutTargets", map[string]any{"Rule": name, "EventBusName": name, "Targets": []any{map[string]any{"Id": "f", "Arn": "arn:aws:lambda:us-east-1:" + motoAccount + ":function:f"}}}},
			} {
				if _, err := c.call("events", "AWSEvents."+made.operation, made.input); err != nil {
					return "", err
				}
			}
			_, err := c.call("events", "AWSEvents.PutEvents", map[string]any{"Entries": []any{map[string]any{"EventBusName": name, "Source": "s", "DetailType": "d", "Detail": "{}"}}})
			if err != nil && strings.Contains(err.Error(), "500") {
				return "status 500", nil
			}
			return "accepted", err
		}},
		{"event to a queue without a policy for it", "not delivered", "delivered", "EventBridge user guide, resource-based policies", "TestQueuesTakeEvents", func(c cloud, name string) (string, error) {
			if err := c.create(name, "Resources:\n  Q: "+fmt.Sprintf(oneQueue, name)); err != nil {
				return "", err
			}
			for _, made := range []struct {
				operation string
				input     map[string]any
			}{
				{"CreateEventBus", map[string]any{"Name": name}},
				{"PutRule", map[string]any{"Name": name, "EventBusName": name, "EventPattern": `{"source":["s"]}`}},
				{"PutTargets", map[string]any{"Rule": name, "EventBusName": name, "Targets": []any{map[string]any{"Id": "q", "Arn": "arn:aws:sqs:us-east-1:" + motoAccount + ":" + name}}}},
				{"PutEvents", map[string]any{"Entries": []any{map[string]any{"EventBusName": name, "Source": "s", "DetailType": "d", "Detail": "{}"}}}},
			} {
				if _, err := c.call("events", "AWSEvents."+made.operation, made.input); err != nil {
					return "", err
				}
			}
			if waiting, err := c.waiting(name); err != nil || waiting != "1" {
				return "not delivered", err
			}
			return "delivered", nil
		}},
	}
}

// create makes a stack.
func (c cloud) create(name, body string) error {
	_, err := c.query("cloudformation", "CreateStack", "StackName", name, "TemplateBody", body, "Capabilities.member.1", "CAPABILITY_NAMED_IAM")
	return err
}

// accepted makes a stack and says whether it could be made.
func (c cloud) accepted(name, body string) (string, error) {
	if err := c.create(name, body); err != nil {
		return err.Error(), nil
	}
	return "accepted", nil
}

// update changes a parameter of a stack.
func (c cloud) update(name, body, parameter, value string) error {
	_, err := c.query("cloudformation", "UpdateStack", "StackName", name, "TemplateBody", body,
		"Parameters.member.1.ParameterKey", parameter, "Parameters.member.1.ParameterValue", value)
	return err
}

// output is the first output of a stack.
func (c cloud) output(name string) (string, error) {
	out, err := c.query("cloudformation", "DescribeStacks", "StackName", name)
	return out.text("Stacks", "0", "Outputs", "0", "OutputValue"), err
}

// waiting is how many messages a queue holds; an error where there is no queue.
func (c cloud) waiting(queue string) (string, error) {
	out, err := c.queue(queue)
	return out.text("Attributes", "ApproximateNumberOfMessages"), err
}

// visibility says whether a queue's timeout, which was 7 s, has changed.
func (c cloud) visibility(queue string) (string, error) {
	out, err := c.queue(queue)
	if out.text("Attributes", "VisibilityTimeout") == "7" {
		return "stays", err
	}
	return "changes", err
}

func (c cloud) queue(name string) (motoAnswer, error) {
	return c.call("sqs", "AmazonSQS.GetQueueAttributes", map[string]any{"QueueUrl": c.endpoint + "/" + motoAccount + "/" + name, "AttributeNames": []string{"All"}})
}

// kept deletes a stack that has a table.
func (c cloud) kept(name, policy string) (string, error) {
	if err := c.create(name, "Resources:\n  T: "+fmt.Sprintf(oneTable, policy, name)); err != nil {
		return "", err
	}
	if _, err := c.query("cloudformation", "DeleteStack", "StackName", name); err != nil {
		return "", err
	}
	there, err := c.table(name)
	if there {
		return "stays", err
	}
	return "goes", err
}

// table reports whether there is a table of the name.
func (c cloud) table(name string) (bool, error) {
	_, err := c.call("dynamodb", "DynamoDB_20120810.DescribeTable", map[string]any{"TableName": name})
	if err != nil && strings.Contains(err.Error(), "ResourceNotFoundException") {
		return false, nil
	}
	return err == nil, err
}
