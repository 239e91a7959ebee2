package deploy_test

import (
	"encoding/json"
	"fmt"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/awsmp/metering/internal/template"
)

// propertyReader asks moto what a resource is, and answers with its properties as a template has them. What it cannot tell is not there.
type propertyReader func(c cloud, r template.Resource, physical string) (map[string]any, error)

// propertyReaders are those of all types that moto makes for the templates.
func propertyReaders() map[string]propertyReader {
	return map[string]propertyReader{
		"AWS::DynamoDB::Table":            readTable,
		"AWS::SQS::Queue":                 readQueue,
		"AWS::Lambda::Function":           readFunction,
		"AWS::Lambda::EventSourceMapping": readMapping,
		"AWS::Lambda::Permission":         readPermission,
		"AWS::Events::Rule":               readRule,
		"AWS::IAM::Role":                  readRole,
		"AWS::IAM::ManagedPolicy":         readPolicy,
		"AWS::Logs::LogGroup":             readLogGroup,
		"AWS::CloudWatch::Dashboard":      readDashboard,
		"AWS::ApiGateway::RestApi":        readAPI,
		"AWS::ApiGateway::Resource":       readAPI,
		"AWS::ApiGateway::Method":         readAPI,
		"AWS::ApiGateway::Deployment":     readDeployment,
	}
}

func readTable(c cloud, _ template.Resource, name string) (map[string]any, error) {
	const api = "DynamoDB_20120810."
	asked := map[string]any{"TableName": name}
	out, err := c.call("dynamodb", api+"DescribeTable", asked)
	if err != nil {
		return nil, err
	}
	properties := map[string]any{
		"TableName": out.get("Table", "TableName"), "KeySchema": out.get("Table", "KeySchema"),
		"AttributeDefinitions": out.get("Table", "AttributeDefinitions"), "BillingMode": out.get("Table", "BillingModeSummary", "BillingMode"),
	}
	var indexes []any
	for _, index := range out.list("Table", "GlobalSecondaryIndexes") {
		indexes = append(indexes, keysOf(index, "IndexName", "KeySchema", "Projection"))
	}
	if indexes != nil {
		properties["GlobalSecondaryIndexes"] = indexes
	}
	if out, err = c.call("dynamodb", api+"DescribeContinuousBackups", asked); err != nil {
		return nil, err
	}
	properties["PointInTimeRecoverySpecification"] = map[string]any{
		"PointInTimeRecoveryEnabled": out.text("ContinuousBackupsDescription", "PointInTimeRecoveryDescription", "PointInTimeRecoveryStatus") == "ENABLED",
	}
	if out, err = c.call("dynamodb", api+"DescribeTimeToLive", asked); err != nil {
		return nil, err
	}
	if out.text("TimeToLiveDescription", "TimeToLiveStatus") == "ENABLED" {
		properties["TimeToLiveSpecification"] = map[string]any{"AttributeName": out.get("TimeToLiveDescription", "AttributeName"), "Enabled": true}
	}
	return properties, nil
}

func readQueue(c cloud, _ template.Resource, address string) (map[string]any, error) {
	out, err := c.call("sqs", "AmazonSQS.GetQueueAttributes", map[string]any{"QueueUrl": address, "AttributeNames": []string{"All"}})
	if err != nil {
		return nil, err
	}
	properties := keysOf(motoAnswer(out.get("Attributes").(map[string]any)), "VisibilityTimeout", "MessageRetentionPeriod", "SqsManagedSseEnabled")
	properties["QueueName"] = lastPart(out.text("Attributes", "QueueArn"))
	if redrive := out.text("Attributes", "RedrivePolicy"); redrive != "" {
		properties["RedrivePolicy"], err = jsonWithin(redrive)
	}
	return properties, err
}

func readFunction(c cloud, _ template.Resource, name string) (map[string]any, error) {
	out, err := c.fetch("lambda", "/2015-03-31/functions/"+name)
	if err != nil {
		return nil, err
	}
	properties := keysOf(out.get("Configuration").(map[string]any), "FunctionName", "Description", "Handler", "Runtime", "Architectures", "MemorySize", "Timeout", "Role",
		"LoggingConfig", "Environment")
	properties["Code"] = out.get("Configuration", "CodeSha256")
	if reserved := out.get("Concurrency", "ReservedConcurrentExecutions"); reserved != nil {
		properties["ReservedConcurrentExecutions"] = reserved
	}
	return properties, nil
}

func readMapping(c cloud, _ template.Resource, id string) (map[string]any, error) {
	out, err := c.fetch("lambda", "/2015-03-31/event-source-mappings/"+id)
	if err != nil {
		return nil, err
	}
	properties := keysOf(out, "EventSourceArn", "BatchSize", "FunctionResponseTypes", "ScalingConfig")
	properties["FunctionName"] = lastPart(out.text("FunctionArn"))
	return properties, nil
}

// readPermission looks for the statement in its function's policy: moto gives a permission no name.
func readPermission(c cloud, r template.Resource, _ string) (map[string]any, error) {
	function := r.Text("FunctionName")
	out, err := c.fetch("lambda", "/2015-03-31/functions/"+function+"/policy")
	if err != nil {
		return nil, err
	}
	policy, err := jsonWithin(out.text("Policy"))
	if err != nil {
		return nil, err
	}
	for _, s := range motoAnswer(policy.(map[string]any)).list("Statement") {
		if source := s.text("Condition", "ArnLike", "AWS:SourceArn"); source == r.Text("SourceArn") {
			return map[string]any{"FunctionName": lastPart(s.text("Resource")), "Action": s.get("Action"), "Principal": s.get("Principal", "Service"), "SourceArn": source}, nil
		}
	}
	return nil, nil
}

func readRule(c cloud, _ template.Resource, name string) (map[string]any, error) {
	out, err := c.call("events", "AWSEvents.DescribeRule", map[string]any{"Name": name})
	if err != nil {
		return nil, err
	}
	properties := keysOf(out, "Name", "Description", "State", "ScheduleExpression")
	if pattern := out.text("EventPattern"); pattern != "" {
		if properties["EventPattern"], err = jsonWithin(pattern); err != nil {
			return nil, err
		}
	}
	if out, err = c.call("events", "AWSEvents.ListTargetsByRule", map[string]any{"Rule": name}); err != nil {
		return nil, err
	}
	properties["Targets"] = out.get("Targets")
	return properties, nil
}

func readRole(c cloud, _ template.Resource, name string) (map[string]any, error) {
	out, err := c.query("iam", "GetRole", "RoleName", name)
	if err != nil {
		return nil, err
	}
	properties := map[string]any{"Description": out.get("Role", "Description")}
	if boundary := out.get("Role", "PermissionsBoundary", "PermissionsBoundaryArn"); boundary != nil {
		properties["PermissionsBoundary"] = boundary
	}
	trust, err := url.QueryUnescape(out.text("Role", "AssumeRolePolicyDocument"))
	if err != nil {
		return nil, err
	}
	if properties["AssumeRolePolicyDocument"], err = jsonWithin(trust); err != nil {
		return nil, err
	}
	policies, err := rolePolicies(c, name)
	if err != nil {
		return nil, err
	}
	if policies != nil {
		properties["Policies"] = policies
	}
	if out, err = c.query("iam", "ListAttachedRolePolicies", "RoleName", name); err != nil {
		return nil, err
	}
	for _, attached := range out.list("AttachedPolicies") {
		arns, _ := properties["ManagedPolicyArns"].([]any)
		properties["ManagedPolicyArns"] = append(arns, attached["PolicyArn"])
	}
	return properties, nil
}

// rolePolicies are the policies that stand in a role itself.
func rolePolicies(c cloud, role string) ([]any, error) {
	names, err := c.query("iam", "ListRolePolicies", "RoleName", role)
	if err != nil {
		return nil, err
	}
	list, _ := names.get("PolicyNames").([]any)
	var policies []any
	for _, name := range list {
		out, err := c.query("iam", "GetRolePolicy", "RoleName", role, "PolicyName", fmt.Sprint(name))
		if err != nil {
			return nil, err
		}
		// moto writes such a document as Python does. No text in it has quotes.
		policy, err := jsonWithin(strings.ReplaceAll(out.text("PolicyDocument"), "'", `"`))
		if err != nil {
			return nil, err
		}
		policies = append(policies, map[string]any{"PolicyName": name, "PolicyDocument": policy})
	}
	return policies, nil
}

func readPolicy(c cloud, _ template.Resource, arn string) (map[string]any, error) {
	out, err := c.query("iam", "GetPolicy", "PolicyArn", arn)
	if err != nil {
		return nil, err
	}
	properties := map[string]any{"Description": out.get("Policy", "Description")}
	if out, err = c.query("iam", "GetPolicyVersion", "PolicyArn", arn, "VersionId", out.text("Policy", "DefaultVersionId")); err != nil {
		return nil, err
	}
	properties["PolicyDocument"], err = jsonWithin(out.text("PolicyVersion", "Document"))
	return properties, err
}

func readLogGroup(c cloud, _ template.Resource, name string) (map[string]any, error) {
	out, err := c.call("logs", "Logs_20140328.DescribeLogGroups", map[string]any{"logGroupNamePrefix": name})
	if err != nil {
		return nil, err
	}
	for _, g := range out.list("logGroups") {
		if g["logGroupName"] == name {
			properties := map[string]any{"LogGroupName": name, "RetentionInDays": g["retentionInDays"]}
			if g["kmsKeyId"] != nil {
				properties["KmsKeyId"] = g["kmsKeyId"]
			}
			return properties, nil
		}
	}
	return nil, nil
}

func readDashboard(c cloud, _ template.Resource, name string) (map[string]any, error) {
	out, err := c.query("monitoring", "GetDashboard", "DashboardName", name)
	if err != nil {
		return nil, err
	}
	return map[string]any{"DashboardName": out.get("DashboardName"), "DashboardBody": out.get("DashboardBody")}, nil
}

// readAPI reads an API, its path or the method of that.
func readAPI(c cloud, r template.Resource, id string) (map[string]any, error) {
	if r.Type == "AWS::ApiGateway::RestApi" {
		out, err := c.fetch("apigateway", "/restapis/"+id)
		if err != nil {
			return nil, err
		}
		return map[string]any{"Name": out["name"], "Description": out["description"], "EndpointConfiguration": out["endpointConfiguration"]}, nil
	}
	api := r.Text("RestApiId")
	if r.Type == "AWS::ApiGateway::Resource" {
		out, err := c.fetch("apigateway", "/restapis/"+api+"/resources/"+id)
		if err != nil {
			return nil, err
		}
		return map[string]any{"RestApiId": api, "ParentId": out["parentId"], "PathPart": out["pathPart"]}, nil
	}
	out, err := c.fetch("apigateway", "/restapis/"+api+"/resources/"+r.Text("ResourceId")+"/methods/"+r.Text("HttpMethod"))
	if err != nil {
		return nil, err
	}
	return map[string]any{
		"RestApiId": api, "ResourceId": r.Text("ResourceId"), "HttpMethod": out["httpMethod"], "AuthorizationType": out["authorizationType"],
		"Integration": map[string]any{
			"Type": out.get("methodIntegration", "type"), "IntegrationHttpMethod": out.get("methodIntegration", "httpMethod"), "Uri": out.get("methodIntegration", "uri"),
		},
	}, nil
}

func readDeployment(c cloud, r template.Resource, _ string) (map[string]any, error) {
	out, err := c.fetch("apigateway", "/restapis/"+r.Text("RestApiId")+"/deployments")
	if err != nil || len(out.list("item")) == 0 {
		return nil, err
	}
	return map[string]any{"RestApiId": r.Text("RestApiId")}, nil
}

// keysOf are those of the keys that are there.
func keysOf(from map[string]any, keys ...string) map[string]any {
	properties := map[string]any{}
	for _, key := range keys {
		if from[key] != nil {
			properties[key] = from[key]
		}
	}
	return properties
}

// jsonWithin reads JSON within JSON.
func jsonWithin(text string) (any, error) {
	var v any
	if err := json.Unmarshal([]byte(text), &v); err != nil {
		return nil, fmt.Errorf("read %q: %w", text, err)
	}
	return v, nil
}

// lastPart is the last part of an ARN.
func lastPart(arn string) string { return arn[strings.LastIndex(arn, ":")+1:] }

// levelled makes properties comparable: moto has numbers and true where AWS has text, and the other way round; the ARN of a log group lacks its end;
// lists of attributes and indexes have no order.
func levelled(v any) any {
	switch x := v.(type) {
	case map[string]any:
		m := map[string]any{}
		for key, item := range x {
			m[key] = levelled(item)
			if list, ok := m[key].([]any); ok && (key == "AttributeDefinitions" || key == "GlobalSecondaryIndexes") {
				slices.SortFunc(list, func(a, b any) int { return strings.Compare(fmt.Sprint(a), fmt.Sprint(b)) })
			}
		}
		return m
	case []any:
		list := make([]any, len(x))
		for i, item := range x {
			list[i] = levelled(item)
		}
		return list
	case string:
		if strings.Contains(x, ":log-group:") {
			return strings.TrimSuffix(x, ":*")
		}
		return x
	case float64:
		return strconv.FormatFloat(x, 'f', -1, 64)
	}
	return fmt.Sprint(v)
}
