package template

import (
	"crypto/sha256"
	"encoding/base32"
	"fmt"
	"regexp"
	"strings"
)

// reference is the value of Ref.
func (s scope) reference(id string) any {
	if strings.HasPrefix(id, "AWS::") {
		return s.pseudo(id)
	}
	if p, ok := s.t.Parameters[id]; ok {
		value, given := s.stack.Parameters[id]
		if !given {
			return broken{} // said already
		}
		if p.Type != "CommaDelimitedList" {
			return value
		}
		list := []any{}
		for _, item := range p.items(value) {
			list = append(list, item)
		}
		return list
	}
	if !s.use(id) {
		return broken{}
	}
	return s.physical(id, "")
}

// pseudo is a value that every stack has (user guide, "Pseudo parameters reference"). The ID of the stack is invented.
func (s scope) pseudo(id string) any {
	switch id {
	case "AWS::NoValue":
		return absent{}
	case "AWS::Region":
		return s.at.Region
	case "AWS::AccountId":
		return s.at.Account
	case "AWS::Partition":
		return s.at.Partition
	case "AWS::URLSuffix":
		return s.at.suffix()
	case "AWS::StackName":
		return s.at.StackName
	case "AWS::StackId":
		return fmt.Sprintf("arn:%s:cloudformation:%s:%s:stack/%s/00000000-0000-4000-8000-000000000000", s.at.Partition, s.at.Region, s.at.Account, s.at.StackName)
	}
	return s.fail("pseudo parameter %s is not known here", id)
}

func (p Place) suffix() string {
	if p.Partition == "aws-cn" {
		return "amazonaws.com.cn"
	}
	return "amazonaws.com"
}

// use notes that a resource is referred to, and says whether that can be.
func (s scope) use(id string) bool {
	raw, exists := s.t.Resources[id]
	if !exists {
		s.fail("%s does not exist", id)
		return false
	}
	if s.section != inStack {
		s.fail("%s is a resource, which cannot be referred to here", id)
		return false
	}
	if s.live && !s.included("Resources/"+id, raw.Condition) {
		s.fail("Unresolved resource dependencies: condition %s leaves out %s", raw.Condition, id)
		return false
	}
	if s.live {
		s.uses[id] = true
	}
	return true
}

func (s scope) getAtt(argument any) any {
	args, ok := s.arguments(argument, 2)
	if !ok {
		return broken{}
	}
	id, _ := args[0].(string)
	attribute, ok := s.text(args[1])
	if !ok {
		return broken{}
	}
	if attribute == "" {
		return s.fail("no attribute of %s is named", id)
	}
	if !s.use(id) {
		return broken{}
	}
	return s.physical(id, attribute)
}

// kind is how AWS names a type of resource. In its texts {name} is the name, {id} an invented one that names the logical ID, and {Property:default} a property.
type kind struct {
	name       string // property that names the resource
	limit      int    // longest name, in characters
	ref        string
	attributes map[string]string
}

// kinds has the types whose values are known here. Each is as the page of the type in the CloudFormation template reference has it under "Return values"
// (such as "AWS::SQS::Queue"); the forms of ARNs are those of the Service Authorization Reference ("Resource types defined by …").
func kinds() map[string]kind {
	const here, iam = "{region}:{account}", ":{account}"
	arn := func(service, rest string) string { return "arn:{partition}:" + service + ":" + rest }
	return map[string]kind{
		"AWS::DynamoDB::Table": {"TableName", 255, "{name}", map[string]string{"Arn": arn("dynamodb", here+":table/{name}"), "StreamArn": "{id}"}},
		"AWS::SQS::Queue": {"QueueName", 80, "https://sqs.{region}.{suffix}/{account}/{name}", map[string]string{
			"Arn": arn("sqs", here+":{name}"), "QueueName": "{name}", "QueueUrl": "https://sqs.{region}.{suffix}/{account}/{name}"}},
		"AWS::Lambda::Function": {"FunctionName", 64, "{name}", map[string]string{"Arn": arn("lambda", here+":function:{name}")}},
		"AWS::Logs::LogGroup":   {"LogGroupName", 512, "{name}", map[string]string{"Arn": arn("logs", here+":log-group:{name}:*")}},
		"AWS::Events::Rule":     {"Name", 64, "{name}", map[string]string{"Arn": arn("events", here+":rule/{name}")}},
		"AWS::IAM::Role":        {"RoleName", 64, "{name}", map[string]string{"Arn": arn("iam", iam+":role{Path:/}{name}"), "RoleId": "{id}"}},
		"AWS::IAM::ManagedPolicy": {"ManagedPolicyName", 128, arn("iam", iam+":policy{Path:/}{name}"), map[string]string{
			"PolicyArn": arn("iam", iam+":policy{Path:/}{name}"), "PolicyId": "{id}"}},
		"AWS::SNS::Topic":             {"TopicName", 256, arn("sns", here+":{name}"), map[string]string{"TopicArn": arn("sns", here+":{name}"), "TopicName": "{name}"}},
		"AWS::ApiGateway::RestApi":    {"", 0, "{id}", map[string]string{"RestApiId": "{id}", "RootResourceId": "{id}"}},
		"AWS::ApiGateway::Resource":   {"", 0, "{id}", map[string]string{"ResourceId": "{id}"}},
		"AWS::ApiGateway::Deployment": {"", 0, "{id}", map[string]string{"DeploymentId": "{id}"}},
		"AWS::ApiGateway::Stage":      {"StageName", 128, "{name}", nil},
		"AWS::WAFv2::WebACL": {"Name", 128, "{name}|{id}|{Scope:}", map[string]string{
			"Arn": arn("wafv2", here+":{reach}/webacl/{name}/{id}"), "Id": "{id}", "Capacity": "{id}", "LabelNamespace": "awswaf:{account}:webacl:{name}:"}},
		"AWS::Scheduler::Schedule":   {"Name", 64, "{name}", map[string]string{"Arn": arn("scheduler", here+":schedule/{GroupName:default}/{name}")}},
		"AWS::CloudWatch::Alarm":     {"AlarmName", 255, "{name}", map[string]string{"Arn": arn("cloudwatch", here+":alarm:{name}")}},
		"AWS::CloudWatch::Dashboard": {"DashboardName", 255, "{name}", nil},
	}
}

var placeholder = regexp.MustCompile(`\{(\w+)(:[^}]*)?\}`)

// physical is what Ref gives of a resource, or Fn::GetAtt where an attribute is named. Of a type that is not known here it is invented, and names the
// logical ID and the attribute.
func (s scope) physical(id, attribute string) any {
	raw := s.t.Resources[id]
	k, known := s.kinds[raw.Type]
	text := "{id}"
	if known && attribute == "" {
		text = k.ref
	} else if known {
		if text, known = k.attributes[attribute]; !known {
			return s.fail("%s is a %s, which has no attribute %s", id, raw.Type, attribute)
		}
	}
	invented := strings.TrimSuffix("invented-"+id+"-"+strings.ReplaceAll(attribute, ".", "-"), "-")
	if attribute != "RootResourceId" && known {
		invented = "invented-" + id // Ref and the attributes of one ID are the same
	}
	if raw.Type == "AWS::Events::Rule" && s.property(id, "EventBusName", "default") != "default" {
		return s.fail("%s is a rule of another bus than the default one, whose values are not known here", id)
	}
	return placeholder.ReplaceAllStringFunc(text, func(found string) string {
		parts := placeholder.FindStringSubmatch(found)
		switch parts[1] {
		case "name":
			return s.property(id, k.name, s.inventedName(id, k.limit))
		case "id":
			return invented
		case "region":
			return s.at.Region
		case "account":
			return s.at.Account
		case "partition":
			return s.at.Partition
		case "suffix":
			return s.at.suffix()
		case "reach":
			if s.property(id, "Scope", "") == "CLOUDFRONT" {
				return "global"
			}
			return "regional"
		}
		return s.property(id, parts[1], strings.TrimPrefix(parts[2], ":"))
	})
}

// property is a property of a resource as text, or the default. Problems in it are said where the resource itself is resolved.
func (s scope) property(id, name, otherwise string) string {
	properties, _ := s.t.Resources[id].Properties.(map[string]any)
	x, written := properties[name]
	if !written || s.naming[id] { // a name made of itself is a circle of resources
		return otherwise
	}
	s.naming[id] = true
	defer delete(s.naming, id)
	s.live, s.quiet = false, true
	if text, ok := scalarText(s.value(x)); ok {
		return text
	}
	return otherwise
}

// inventedName is a name as CloudFormation makes one: of the stack, the logical ID and 12 characters (template reference, "Name type"), which are
// the same every time here. Where it is too long, what stands before them is cut.
func (s scope) inventedName(id string, limit int) string {
	sum := sha256.Sum256([]byte(s.at.StackName + "/" + id))
	random := "-" + base32.StdEncoding.EncodeToString(sum[:])[:12]
	front := s.at.StackName + "-" + id
	if longest := limit - len(random); longest > 0 && len(front) > longest {
		front = front[:longest]
	}
	return front + random
}
