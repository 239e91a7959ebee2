package deploy_test

import (
	"encoding/json"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	dynamosdk "github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
	sqssdk "github.com/aws/aws-sdk-go-v2/service/sqs"
	sqstypes "github.com/aws/aws-sdk-go-v2/service/sqs/types"

	"github.com/awsmp/metering/internal/lambdahost"
	"github.com/awsmp/metering/internal/lifecycle"
	"github.com/awsmp/metering/internal/metering"
	"github.com/awsmp/metering/internal/standin"
	"github.com/awsmp/metering/internal/store/dynamodb"
	"github.com/awsmp/metering/simulator"
)

// buyer is one that the drill's scene has for itself.
type buyer struct {
	license, account string
	hour             metering.Hour // of its usage
}

// buys makes a buyer with an active license.
func (d *drill) buys(i int) buyer {
	d.t.Helper()
	b := buyer{buyerLicense(i), buyerAccount(i), d.hour}
	d.must(d.sim.PutLicense(simulator.License{ARN: b.license, AccountID: b.account}))
	return b
}

// group is one of a buyer, some hours before the one that was the last complete one when the drill began.
func (b buyer) group(dimension string, back int) metering.Group {
	return metering.Group{License: b.license, Account: b.account, Dimension: dimension, Hour: b.hour - metering.Hour(back)}
}

// row writes a row of a group, as a seller's application does, over whatever is there.
func (d *drill) row(g metering.Group, second int, quantity string) {
	d.t.Helper()
	d.metered[g.License] = true
	at := g.Hour.Start().Add(time.Duration(second) * time.Second)
	item := map[string]types.AttributeValue{"quantity": &types.AttributeValueMemberN{Value: quantity}}
	for name, text := range map[string]string{
		"licenseArn": g.License, "customerAWSAccountId": g.Account, "dimension": g.Dimension, "timestamp": at.Format("2006-01-02T15:04:05"), "meteringPending": g.Hour.String(),
		"customerAWSAccountId_dimension_timestamp": d.rowKey(g, second),
	} {
		item[name] = &types.AttributeValueMemberS{Value: text}
	}
	_, err := d.dynamo.PutItem(d.t.Context(), &dynamosdk.PutItemInput{TableName: aws.String(d.name("usage")), Item: item})
	d.must(err)
}

func (d *drill) rowKey(g metering.Group, second int) string {
	return g.Account + "#" + g.Dimension + "#" + g.Hour.Start().Add(time.Duration(second)*time.Second).Format("2006-01-02T15:04:05")
}

// record writes a record as a direct-submit seller does.
func (d *drill) record(g metering.Group, quantity int64) {
	d.t.Helper()
	d.metered[g.License] = true
	d.must(d.store.PutRecord(d.t.Context(), metering.NewRecord(g, quantity)))
}

// edit sets one attribute of an item by hand, and returns what it was.
func (d *drill) edit(table, sortName, license, sortKey, attribute string, value types.AttributeValue) types.AttributeValue {
	d.t.Helper()
	out, err := d.dynamo.UpdateItem(d.t.Context(), &dynamosdk.UpdateItemInput{
		TableName: aws.String(d.name(table)), Key: map[string]types.AttributeValue{"licenseArn": &types.AttributeValueMemberS{Value: license}, sortName: &types.AttributeValueMemberS{Value: sortKey}},
		UpdateExpression: aws.String("SET #a = :v"), ExpressionAttributeNames: map[string]string{"#a": attribute}, ExpressionAttributeValues: map[string]types.AttributeValue{":v": value},
		ReturnValues: types.ReturnValueAllOld,
	})
	d.must(err)
	return out.Attributes[attribute]
}

// happens is an event of the Marketplace about a license. EventBridge puts it into the queue of the rule's target, or, where that queue's policy does not let it,
// into the target's dead-letter queue (Amazon EventBridge user guide, "Using dead-letter queues to process undelivered events"). moto asks no policy.
func (d *drill) happens(kind lifecycle.Kind, b buyer, ago time.Duration) {
	d.t.Helper()
	const rule = "awsmp-marketplace-events"
	text, err := lifecycle.TestEvent{Kind: kind, License: b.license, Account: b.account, ProductCode: drillProduct, Agreement: "agmt-" + b.account, At: time.Now().Add(-ago)}.JSON()
	d.must(err)
	described, err := d.cloud.call("events", "AWSEvents.DescribeRule", map[string]any{"Name": rule})
	d.must(err)
	targets, err := d.cloud.call("events", "AWSEvents.ListTargetsByRule", map[string]any{"Rule": rule})
	d.must(err)
	target := targets.list("Targets")[0]
	to, attributes := target.text("Arn"), map[string]sqstypes.MessageAttributeValue{}
	if !d.lets(to, described.text("Arn")) {
		for name, value := range map[string]string{
			"RULE_ARN": described.text("Arn"), "TARGET_ARN": to, "ERROR_CODE": "NO_PERMISSIONS", "ERROR_MESSAGE": "The policy of the queue does not allow it.",
		} {
			attributes[name] = sqstypes.MessageAttributeValue{DataType: aws.String("String"), StringValue: aws.String(value)}
		}
		to = target.text("DeadLetterConfig", "Arn")
	}
	_, err = d.sqs.SendMessage(d.t.Context(), &sqssdk.SendMessageInput{QueueUrl: aws.String(d.queueURL(lastPart(to))), MessageBody: aws.String(string(text)), MessageAttributes: attributes})
	d.must(err)
}

// lets reports whether a queue's policy lets EventBridge send for a rule.
func (d *drill) lets(queue, rule string) bool {
	d.t.Helper()
	out, err := d.cloud.call("sqs", "AmazonSQS.GetQueueAttributes", map[string]any{"QueueUrl": d.queueURL(lastPart(queue)), "AttributeNames": []string{"All"}})
	d.must(err)
	text := out.text("Attributes", "Policy")
	if text == "" {
		return false
	}
	policy, err := jsonWithin(text)
	d.must(err)
	return slices.ContainsFunc(motoAnswer(policy.(map[string]any)).list("Statement"), func(s motoAnswer) bool {
		return s.text("Effect") == "Allow" && s.text("Action") == "sqs:SendMessage" && s.text("Principal", "Service") == "events.amazonaws.com" &&
			slices.Contains(oneOrMore(s.get("Condition", "ArnEquals", "aws:SourceArn")), rule)
	})
}

// dies kills a function's process once, at its next call of an operation.
func (d *drill) dies(function, operation string) {
	f := d.called(function)
	var once sync.Once
	d.troubles(function, func(c standin.Call) (a standin.Action) {
		if c.Operation == operation {
			once.Do(func() {
				a.Hold = make(chan struct{}) // the call never reaches the service
				go f.Kill()
			})
		}
		return a
	})
}

// clicks is a buyer's first click. Where the function answers nothing, API Gateway answers with a status of its own and counts it.
func (d *drill) clicks(b buyer) (status int) {
	d.t.Helper()
	token, err := d.sim.IssueToken(simulator.Token{AccountID: b.account, LicenseARN: b.license})
	d.must(err)
	form := url.Values{"x-amzn-marketplace-token": {token}, "contactName": {"Erika Mustermann"}, "contactEmail": {"erika@mustermann.example"}, "companyName": {"Mustermann & Söhne"}}
	payload, err := json.Marshal(lambdahost.Posted("/register", "c6af9ac6-7b61-11e6-9a41-93e8deadbeef", form))
	d.must(err)
	f := d.called(d.name("registration"))
	body, err := f.Invoke(d.t.Context(), payload)
	d.counted(f.name, 1, map[bool]int{true: 1}[err != nil], 0)
	d.hear(f)
	answer := struct {
		StatusCode int `json:"statusCode"`
	}{http.StatusBadGateway}
	if err == nil {
		d.must(json.Unmarshal(body, &answer))
	}
	if answer.StatusCode >= http.StatusInternalServerError {
		d.console.count("AWS/ApiGateway", "5XXError", map[string]string{"ApiName": d.name("registration"), "Stage": "prod"}, 1)
	}
	return answer.StatusCode
}

// rolePolicy is the one policy that stands in a role.
type rolePolicy struct {
	role, name string
	list       []json.RawMessage // statements
}

// statementsOf reads the policy of a role. moto gives it as Python writes it where a template made it, and as AWS does where the API did.
func (d *drill) statementsOf(arn string) rolePolicy {
	d.t.Helper()
	p := rolePolicy{role: arn[strings.LastIndexByte(arn, '/')+1:]}
	listed, err := d.cloud.query("iam", "ListRolePolicies", "RoleName", p.role)
	d.must(err)
	names := oneOrMore(listed.get("PolicyNames"))
	if len(names) != 1 {
		d.t.Fatalf("%s has the policies %q, want one", p.role, names)
	}
	p.name = names[0]
	out, err := d.cloud.query("iam", "GetRolePolicy", "RoleName", p.role, "PolicyName", p.name)
	d.must(err)
	text, err := url.PathUnescape(out.text("PolicyDocument"))
	d.must(err)
	var policy struct{ Statement []json.RawMessage }
	d.must(json.Unmarshal([]byte(strings.ReplaceAll(text, "'", `"`)), &policy))
	p.list = policy.Statement
	return p
}

// forbid takes statements of a function's role away, those that hold one of the words or all of them, and returns what gives them back.
func (d *drill) forbid(function string, words ...string) (allow func()) {
	d.t.Helper()
	configuration, err := d.cloud.fetch("lambda", "/2015-03-31/functions/"+function+"/configuration")
	d.must(err)
	p := d.statementsOf(configuration.text("Role"))
	put := func(statements []json.RawMessage) {
		text, err := json.Marshal(map[string]any{"Version": "2012-10-17", "Statement": statements})
		d.must(err)
		_, err = d.cloud.query("iam", "PutRolePolicy", "RoleName", p.role, "PolicyName", p.name, "PolicyDocument", string(text))
		d.must(err)
	}
	rest := slices.DeleteFunc(slices.Clone(p.list), func(s json.RawMessage) bool {
		lines := strings.Contains(string(s), "logs:PutLogEvents") // of which no call of ours is one: CloudWatch takes them
		return !lines && (len(words) == 0 || slices.ContainsFunc(words, func(w string) bool { return strings.Contains(string(s), w) }))
	})
	if len(rest) == len(p.list) {
		d.t.Fatalf("the role of %s has nothing of %q", function, words)
	}
	put(rest)
	return func() { put(p.list) }
}

// switches a queue's mapping on or off.
func (d *drill) switches(queue string, on bool) {
	d.t.Helper()
	name := d.name(queue)
	if queue == "events" {
		name = "awsmp-events"
	}
	for _, m := range d.mapped() {
		if lastPart(m.text("EventSourceArn")) == name {
			text, err := json.Marshal(map[string]any{"Enabled": on})
			d.must(err)
			_, err = d.cloud.send("lambda", http.MethodPut, "/2015-03-31/event-source-mappings/"+m.text("UUID"), "application/json", "", string(text))
			d.must(err)
			return
		}
	}
	d.t.Fatalf("no mapping of %s", name)
}

// schedule sets the state of the schedule that ends last hours.
func (d *drill) schedule(state string) {
	d.t.Helper()
	for _, r := range d.deployed.Events.OfType(scheduleType) {
		schedule, err := d.cloud.fetch("scheduler", "/schedules/"+r.Text("Name"))
		d.must(err)
		text, err := json.Marshal(map[string]any{
			"State": state, "ScheduleExpression": schedule.text("ScheduleExpression"), "FlexibleTimeWindow": schedule.get("FlexibleTimeWindow"), "Target": schedule.get("Target"),
		})
		d.must(err)
		_, err = d.cloud.send("scheduler", http.MethodPut, "/schedules/"+r.Text("Name"), "application/json", "", string(text))
		d.must(err)
	}
}

// subscriber is what the subscribers table has of a buyer.
func (d *drill) subscriber(b buyer) (*metering.Subscriber, error) {
	return dynamodb.NewSubscribers(d.dynamo, d.deployed.Events.Outputs["SubscribersTableName"].Value).Subscriber(d.t.Context(), b.license, b.account)
}
