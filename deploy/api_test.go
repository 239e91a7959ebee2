package deploy_test

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/awsmp/metering/internal/template"
)

const (
	apiType           = "AWS::ApiGateway::RestApi"
	apiPathType       = "AWS::ApiGateway::Resource"
	apiMethodType     = "AWS::ApiGateway::Method"
	apiAnswerType     = "AWS::ApiGateway::GatewayResponse"
	apiDeploymentType = "AWS::ApiGateway::Deployment"
	apiStageType      = "AWS::ApiGateway::Stage"
)

// apiShape is all that the templates may have of an API: types, and of each the properties that are looked at here. With any other it would be another API.
func apiShape() map[string][]string {
	return map[string][]string{
		apiType:           {"Name", "Description", "EndpointConfiguration"}, // no BinaryMediaTypes, so that a form arrives as text
		apiPathType:       {"RestApiId", "ParentId", "PathPart"},
		apiMethodType:     {"RestApiId", "ResourceId", "HttpMethod", "AuthorizationType", "Integration"},
		apiAnswerType:     {"RestApiId", "ResponseType", "ResponseParameters", "ResponseTemplates"},
		apiDeploymentType: {"RestApiId"},
		apiStageType:      {"RestApiId", "DeploymentId", "StageName", "MethodSettings", "AccessLogSetting"},
		accountType:       {"CloudWatchRoleArn"},
	}
}

// checkAPI: a buyer's browser finds one path, from which everything goes to the function as it came, at a pace, and nothing of the buyer goes into a log.
func checkAPI(s *template.Stack) (wrong []string) {
	note := func(format string, args ...any) { wrong = append(wrong, fmt.Sprintf(format, args...)) }
	shape, only := apiShape(), map[string]template.Resource{}
	for _, id := range slices.Sorted(maps.Keys(s.Resources)) {
		r := s.Resources[id]
		known, isKnown := shape[r.Type]
		if !strings.HasPrefix(r.Type, "AWS::ApiGateway") {
			continue
		}
		if !isKnown {
			note("%s is a %s, of which nothing is known here", id, r.Type)
		}
		for _, name := range slices.Sorted(maps.Keys(r.Properties)) {
			if isKnown && !slices.Contains(known, name) {
				note("%s has %s", id, name)
			}
		}
		if _, twice := only[r.Type]; twice && r.Type != apiAnswerType {
			note("there are two of %s", r.Type)
		}
		only[r.Type] = r
	}
	if _, metered := s.Parameters["ProductCode"]; !metered {
		if len(only) > 0 {
			note("the events stack has an API")
		}
		return wrong
	}
	api, path, method, stage := only[apiType], only[apiPathType], only[apiMethodType], only[apiStageType]
	ref := method.Text("RestApiId")
	is := func(r template.Resource, want any, at ...string) {
		if diff := cmp.Diff(want, r.Get(at...)); diff != "" {
			note("%s: %s (-want +got): %s", r.ID, strings.Join(at, "."), diff)
		}
	}
	is(api, map[string]any{"Types": []any{"REGIONAL"}}, "EndpointConfiguration")
	is(path, "register", "PathPart")
	is(path, ref, "RestApiId")
	is(path, ref+"-RootResourceId", "ParentId")
	is(method, "ANY", "HttpMethod")
	is(method, "NONE", "AuthorizationType")
	is(method, map[string]any{
		"Type": "AWS_PROXY", "IntegrationHttpMethod": "POST", // whatever the buyer's method is, Lambda is called by POST
		"Uri": "arn:aws:apigateway:us-east-1:lambda:path/2015-03-31/functions/" + lambdaPrefix + handled(s, "registration").Text("FunctionName") + "/invocations",
	}, "Integration")
	is(stage, ref, "RestApiId")
	is(stage, s.Parameters["StageName"], "StageName")
	is(stage, []any{map[string]any{
		"ResourcePath": "/*", "HttpMethod": "*", "ThrottlingRateLimit": 10, "ThrottlingBurstLimit": 20,
		"MetricsEnabled": false, "LoggingLevel": "OFF", "DataTraceEnabled": false,
	}}, "MethodSettings")
	want := "https://" + ref + ".execute-api.us-east-1.amazonaws.com/" + stage.Text("StageName") + "/" + path.Text("PathPart")
	if got := s.Outputs["RegistrationUrl"].Value; got != want {
		note("RegistrationUrl is %q, want %q", got, want)
	}
	wrong = append(wrong, deploymentProblems(s, only[apiDeploymentType], stage)...)
	return append(wrong, accessLogProblems(s, stage)...)
}

// deploymentProblems: a deployment depicts what is there when it is made, so it has to wait for all of it.
func deploymentProblems(s *template.Stack, picture, stage template.Resource) (wrong []string) {
	for _, id := range slices.Sorted(maps.Keys(s.Resources)) {
		depicted := []string{apiType, apiMethodType, apiAnswerType}
		if slices.Contains(depicted, s.Resources[id].Type) && !slices.Contains(picture.Uses, id) {
			wrong = append(wrong, fmt.Sprintf("%s does not wait for %s", picture.ID, id))
		}
	}
	if !slices.Contains(stage.Uses, picture.ID) {
		wrong = append(wrong, fmt.Sprintf("%s does not show %s", stage.ID, picture.ID))
	}
	// One setting for all APIs of an account and Region: it stays when the stack goes, and an account without it takes no access logs.
	account := s.OfType(accountType)
	if want := s.Parameters["CreateApiGatewayLogRole"] == "true"; (len(account) == 1) != want {
		return append(wrong, fmt.Sprintf("the account's log role is set: %t, want %t", len(account) == 1, want))
	}
	for _, a := range account {
		if !slices.Contains(stage.Uses, a.ID) {
			wrong = append(wrong, fmt.Sprintf("%s does not wait for %s", stage.ID, a.ID))
		}
	}
	return wrong
}

// loggable are the variables that an access log may hold (Amazon API Gateway developer guide, "Variables for access logging"). None is of the buyer: no
// address, query, header, body or identity. The path is the resource's and not what was asked for.
func loggable() []string {
	return []string{
		"$context.requestId", "$context.requestTime", "$context.httpMethod", "$context.resourcePath", "$context.status", "$context.responseLength",
		"$context.responseLatency", "$context.error.responseType", "$context.integrationStatus",
	}
}

var logVariable = regexp.MustCompile(`\$[A-Za-z0-9_.{}]*`)

// accessLogProblems: each request is a line of JSON with the reference that the buyer was shown, in a log group of the stack.
func accessLogProblems(s *template.Stack, stage template.Resource) (wrong []string) {
	format := stage.Text("AccessLogSetting", "Format")
	for _, variable := range logVariable.FindAllString(format, -1) {
		if !slices.Contains(loggable(), variable) {
			wrong = append(wrong, fmt.Sprintf("the access log holds %s", variable))
		}
	}
	for _, value := range []string{"-", "2026-03-10T14:30:00Z", "10/Mar/2026:14:30:00 +0000", "ANY", "200"} { // - is what is not there
		line := logVariable.ReplaceAllLiteralString(format, value)
		if !json.Valid([]byte(line)) || strings.Contains(line, "\n") {
			wrong = append(wrong, "the access log is no line of JSON: "+line)
		}
	}
	if !strings.Contains(format, `"requestId":"$context.requestId"`) {
		wrong = append(wrong, "the access log does not hold the request's id")
	}
	name := "/aws/apigateway/awsmp-" + s.Parameters["ProductCode"] + "-registration"
	if got := stage.Text("AccessLogSetting", "DestinationArn"); got != "arn:aws:logs:us-east-1:111122223333:log-group:"+name {
		wrong = append(wrong, "the access log goes to "+got)
	}
	if !slices.ContainsFunc(stage.Uses, func(id string) bool { return s.Resources[id].Type == logGroupType }) {
		wrong = append(wrong, stage.ID+" does not wait for its log group")
	}
	return wrong
}

func TestTheAPIHandsOnWhatBuyersSend(t *testing.T) {
	t.Parallel()
	stage := func(old, changed, says string) fault {
		return fault{"direct-submit live", "RegistrationStage", old, changed, says}
	}
	upholds(t, checkAPI,
		fault{"full live", "RegistrationApi", "[REGIONAL]", "[EDGE]", "EndpointConfiguration"},
		fault{"full live", "RegistrationApi", "Description:", "BinaryMediaTypes: ['*/*']\n      Description:", "RegistrationApi has BinaryMediaTypes"},
		fault{"full live", "RegistrationPath", "PathPart: register", "PathPart: '{proxy+}'", "PathPart"},
		fault{"full live", "RegistrationMethod", "HttpMethod: ANY", "HttpMethod: POST", "HttpMethod"},
		fault{"full live", "RegistrationMethod", "AuthorizationType: NONE", "AuthorizationType: AWS_IAM", "AuthorizationType"},
		fault{"full live", "RegistrationMethod", "Type: AWS_PROXY", "Type: AWS", "AWS_PROXY"},
		fault{"full live", "RegistrationMethod", "IntegrationHttpMethod: POST", "IntegrationHttpMethod: ANY", "IntegrationHttpMethod"},
		fault{"full live", "RegistrationMethod", "${RegistrationFunction.Arn}", "${SubmitterFunction.Arn}", "Integration"},
		fault{"full live", "CleanupLogs", "AWS::Logs::LogGroup", apiMethodType, "there are two of AWS::ApiGateway::Method"},
		fault{"full live", "CleanupLogs", "AWS::Logs::LogGroup", "AWS::ApiGatewayV2::Api", "of which nothing is known"},
		stage("ThrottlingRateLimit: 10", "ThrottlingRateLimit: 10000", "ThrottlingRateLimit"),
		stage("ThrottlingBurstLimit: 20", "ThrottlingBurstLimit: 5000", "ThrottlingBurstLimit"),
		stage("MetricsEnabled: false", "MetricsEnabled: true", "MetricsEnabled"),
		stage("LoggingLevel: 'OFF'", "LoggingLevel: INFO", "LoggingLevel"),
		stage("DataTraceEnabled: false", "DataTraceEnabled: true", "DataTraceEnabled"),
		stage("StageName: !Ref StageName", "StageName: live", "RegistrationStage: StageName"),
		stage("!Ref RegistrationDeployment", "other #", "RegistrationStage does not show RegistrationDeployment"),
		stage(`"$context.status"`, `$context.status`, "no line of JSON"),
		stage(`"status":"$context.status"`, `"ip":"$context.identity.sourceIp"`, "holds $context.identity.sourceIp"),
		stage(`"status":"$context.status"`, `"q":"$context.authorizer.claims.email"`, "holds $context.authorizer.claims.email"),
		stage(`"path":"$context.resourcePath"`, `"path":"$context.path"`, "holds $context.path"),
		stage(`"requestId":"$context.requestId"`, `"id":"$context.requestId"`, "the request's id"),
		stage("log-group:${RegistrationAccessLogs}", "log-group:other", "goes to arn:aws:logs:us-east-1:111122223333:log-group:other"),
		stage("log-group:${RegistrationAccessLogs}", "log-group:other", "does not wait for its log group"),
		stage("!If [SetsApiGatewayLogRole, !Ref ApiGatewayAccount, none]", "none", "RegistrationStage does not wait for ApiGatewayAccount"),
		fault{"full live", "RegistrationUrl", "/register", "", "RegistrationUrl is"},
		fault{"full live", "RegistrationUrl", "${StageName}", "prod2", "RegistrationUrl is"},
	)
}

// TestTheAPIDoesWithoutItsLogRole where another stack, or another program, has set it.
func TestTheAPIDoesWithoutItsLogRole(t *testing.T) {
	t.Parallel()
	without := map[string]string{"CreateApiGatewayLogRole": "false", "StageName": "v2"}
	s := deploymentNamed(t, "full live").with(t, without)
	for _, problem := range checkAPI(s) {
		t.Error(problem)
	}
	for _, role := range s.OfType(iamRoleType) {
		if role.Get("ManagedPolicyArns") != nil {
			t.Errorf("there is %s", role.ID)
		}
	}
	turned := fault{in: "full live", at: "SetsApiGatewayLogRole", old: "'true'", new: "'false'"}
	complains(t, checkAPI(brokenAt(t, turned, without, usualPlace())), "log role is set: true, want false")
	complains(t, checkAPI(brokenAt(t, turned, nil, usualPlace())), "log role is set: false, want true")
}

// deploymentName is the logical ID that a deployment has to have: API Gateway pictures the API when a deployment is made, and CloudFormation makes a new one only
// where the ID is new. So the ID says what is in the picture, and a change of the API that would not be seen is one that does not pass.
func deploymentName(tmpl *template.Template) (string, error) {
	depicted := map[string]any{}
	for id, raw := range tmpl.Resources {
		if slices.Contains([]string{apiType, apiPathType, apiMethodType, apiAnswerType}, raw.Type) {
			depicted[id] = raw.Properties
		}
	}
	text, err := json.Marshal(depicted) // keys in order
	if err != nil {
		return "", err
	}
	for name := range tmpl.Mappings {
		if strings.Contains(string(text), `"Fn::FindInMap":["`+name+`"`) {
			depicted["Mapping "+name] = tmpl.Mappings[name]
		}
	}
	if text, err = json.Marshal(depicted); err != nil {
		return "", err
	}
	sum := sha256.Sum256(text)
	return "RegistrationDeployment" + hex.EncodeToString(sum[:4]), nil
}

// checkDeploymentName: where the API has changed its deployment has another name.
func checkDeploymentName(tmpl *template.Template) (wrong []string) {
	want, err := deploymentName(tmpl)
	if err != nil {
		return []string{err.Error()}
	}
	for id, raw := range tmpl.Resources {
		if raw.Type == apiDeploymentType && id != want {
			wrong = append(wrong, fmt.Sprintf("the API has changed and its deployment %s would not be made anew: rename it to %s, in RegistrationStage too", id, want))
		}
	}
	return wrong
}

func TestAChangeOfTheAPIIsDeployed(t *testing.T) {
	t.Parallel()
	tmpl := read(t, meteringTemplate)
	for _, problem := range checkDeploymentName(tmpl) {
		t.Error(problem)
	}
	for _, f := range []fault{
		{at: "RegistrationApi", old: "first click", new: "second click"},
		{at: "RegistrationPath", old: "PathPart: register", new: "PathPart: registration"},
		{at: "RegistrationMethod", old: "HttpMethod: ANY", new: "HttpMethod: POST"},
		{at: "ThrottledAnswer", old: "'DENY'", new: "'SAMEORIGIN'"},
		{at: "Answers", old: "Wait a minute", new: "Wait two minutes"},
	} {
		f.in = "full live"
		complains(t, checkDeploymentName(brokenText(t, f)), "rename it to RegistrationDeployment")
	}
	// What is not in the picture needs no new one.
	other := brokenText(t, fault{in: "full live", at: "RegistrationStage", old: "ThrottlingRateLimit: 10", new: "ThrottlingRateLimit: 11"})
	if a, _ := deploymentName(tmpl); a == "" {
		t.Error("no name")
	} else if b, _ := deploymentName(other); a != b {
		t.Errorf("a change of the stage changes %s to %s", a, b)
	}
}
