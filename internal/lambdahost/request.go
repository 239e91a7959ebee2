package lambdahost

import (
	"net/http"
	"net/url"

	"github.com/aws/aws-lambda-go/events"
)

// Posted is what a REST API of API Gateway hands to a function where a buyer's browser comes from AWS Marketplace with a form (API Gateway
// developer guide, "Input format of a Lambda function for proxy integration"). ID is that of the request.
func Posted(path, id string, form url.Values) events.APIGatewayProxyRequest {
	return events.APIGatewayProxyRequest{
		HTTPMethod: http.MethodPost, Path: path, Resource: path, Body: form.Encode(),
		Headers: map[string]string{
			"Content-Type": "application/x-www-form-urlencoded", "Accept": "text/html,application/xhtml+xml,*/*;q=0.8",
			"Origin": "https://aws.amazon.com", "Sec-Fetch-Site": "cross-site",
		},
		RequestContext: events.APIGatewayProxyRequestContext{RequestID: id, Stage: "prod", HTTPMethod: http.MethodPost, ResourcePath: path},
	}
}
