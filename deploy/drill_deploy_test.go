package deploy_test

import (
	"encoding/json"
	"fmt"
	"strings"

	"github.com/awsmp/metering/internal/standin"
	"github.com/awsmp/metering/internal/template"
)

// settings reads the parameters of the metering stack. Where they have changed, alarms come and go, as CloudFormation makes them and moto does not.
func (d *drill) settings() {
	d.t.Helper()
	described, err := d.cloud.query("cloudformation", "DescribeStacks", "StackName", d.deployed.StackName)
	d.must(err)
	parameters := map[string]string{}
	for _, p := range described.list("Stacks", "0", "Parameters") {
		parameters[p.text("ParameterKey")] = p.text("ParameterValue")
	}
	tmpl, err := template.Read(meteringTemplate)
	d.must(err)
	stack, err := tmpl.Resolve(parameters, template.Place{Region: standin.Region, Account: d.deployed.Account, StackName: d.deployed.StackName})
	d.must(err)
	for _, alarm := range stack.OfType(alarmType) {
		if _, there := d.deployed.Stack.Resources[alarm.ID]; !there {
			d.alarm(alarm)
		}
	}
	for _, alarm := range d.deployed.Stack.OfType(alarmType) {
		if _, there := stack.Resources[alarm.ID]; !there {
			_, err := d.cloud.call("monitoring", "GraniteServiceVersion20100801.DeleteAlarms", map[string]any{"AlarmNames": []string{alarm.Text("AlarmName")}})
			d.must(err)
			delete(d.console.states, alarm.Text("AlarmName"))
		}
	}
	d.deployed.Stack = stack
	d.alarms = append(d.deployed.Events.OfType(alarmType), stack.OfType(alarmType)...)
}

// set changes one parameter of the metering stack, as somebody does who does not think of what it means.
func (d *drill) set(name, value string) {
	d.t.Helper()
	described, err := d.cloud.query("cloudformation", "DescribeStacks", "StackName", d.deployed.StackName)
	d.must(err)
	request := []string{"StackName", d.deployed.StackName, "UsePreviousTemplate", "true", "Capabilities.member.1", "CAPABILITY_IAM",
		"Parameters.member.1.ParameterKey", name, "Parameters.member.1.ParameterValue", value}
	i := 1
	for _, p := range described.list("Stacks", "0", "Parameters") {
		if key := p.text("ParameterKey"); key != name {
			i++
			member := fmt.Sprintf("Parameters.member.%d.", i)
			request = append(request, member+"ParameterKey", key, member+"UsePreviousValue", "true")
		}
	}
	_, err = d.cloud.query("cloudformation", "UpdateStack", request...)
	d.must(err)
}

// policies gives queues the policies of a template: moto makes none from one.
func (d *drill) policies(s *template.Stack) {
	d.t.Helper()
	for _, policy := range s.OfType("AWS::SQS::QueuePolicy") {
		text, err := json.Marshal(policy.Get("PolicyDocument"))
		d.must(err)
		for _, queue := range oneOrMore(policy.Get("Queues")) {
			d.setQueue(queue[strings.LastIndexByte(queue, '/')+1:], "Policy", string(text))
		}
	}
}

func (d *drill) setQueue(name, attribute, value string) {
	d.t.Helper()
	_, err := d.cloud.call("sqs", "AmazonSQS.SetQueueAttributes", map[string]any{"QueueUrl": d.queueURL(name), "Attributes": map[string]any{attribute: value}})
	d.must(err)
}

func (d *drill) queueURL(name string) string {
	return d.cloud.endpoint + "/" + d.deployed.Account + "/" + name
}

// tells makes the topic that the alarms tell, with somebody who hears. The alarms of the events stack were deployed without one.
func (d *drill) tells() {
	d.t.Helper()
	_, err := d.cloud.query("sns", "CreateTopic", "Name", lastPart(drillTopic))
	d.must(err)
	_, err = d.cloud.query("sns", "Subscribe", "TopicArn", drillTopic, "Protocol", "email", "Endpoint", "erika@mustermann.example")
	d.must(err)
	for _, alarm := range d.deployed.Events.OfType(alarmType) {
		alarm.Properties["AlarmActions"] = []any{drillTopic}
		d.alarm(alarm)
	}
}

// alarm makes an alarm or changes it.
func (d *drill) alarm(alarm template.Resource) {
	d.t.Helper()
	_, err := d.cloud.call("monitoring", "GraniteServiceVersion20100801.PutMetricAlarm", alarm.Properties)
	d.must(err)
}

// calm keeps moto from calling functions by itself when a message is sent, and leaves its mappings enabled all the same: of several mappings of one
// queue and function it asks the youngest, which is one that is not enabled and is deleted at once (docs/stand-ins.md).
func (d *drill) calm() {
	d.t.Helper()
	for _, m := range d.mapped() {
		body, err := json.Marshal(map[string]any{"FunctionName": m.text("FunctionArn"), "EventSourceArn": m.text("EventSourceArn"), "Enabled": false})
		d.must(err)
		decoy, err := d.cloud.send("lambda", "POST", "/2015-03-31/event-source-mappings/", "application/json", "", string(body))
		d.must(err)
		_, err = d.cloud.send("lambda", "DELETE", "/2015-03-31/event-source-mappings/"+decoy.text("UUID"), "", "", "")
		d.must(err)
	}
}

func (d *drill) mapped() []motoAnswer {
	d.t.Helper()
	listed, err := d.cloud.fetch("lambda", "/2015-03-31/event-source-mappings/")
	d.must(err)
	return listed.list("EventSourceMappings")
}
