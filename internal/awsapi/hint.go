package awsapi

import (
	"errors"
	"fmt"
	"net"
	"strings"

	"github.com/aws/smithy-go"
)

// hint is what a person can do about a failure.
func hint(class Class, resource string, err error) string {
	service, operation := calledOf(err)
	message := messageOf(err)
	switch class {
	case Credentials:
		if strings.Contains(message, "Signature expired") || strings.Contains(message, "Signature not yet current") {
			return "set this machine's clock; it differs from the service's by more than five minutes"
		}
		return "aws sts get-caller-identity, with the same environment: the credentials are missing, expired or not accepted"
	case Denied:
		return fmt.Sprintf("allow the caller's role the IAM action %s on %s, and on its key where it has one of its own", orNeeded(Action(service, operation)), orAny(resource))
	case Missing:
		return fmt.Sprintf("check AWS_REGION and the name of %s: %s", orAny(resource), lookup(service, resource))
	case Unavailable:
		return unavailableHint(err, service)
	case Throttled:
		return "wait; if it goes on, look at the throttled requests of " + orAny(resource) + " in CloudWatch"
	case Invalid:
		return invalidHint(message, service, resource, err)
	}
	return ""
}

func invalidHint(message, service, resource string, err error) string {
	lower := strings.ToLower(message)
	switch {
	case isMissingRegion(err):
		return hintNoRegion
	case isEndpoint(err):
		return "a whole address in AWS_ENDPOINT_URL and those for one service, as http://127.0.0.1:8000, or none"
	case strings.Contains(lower, "credential should be scoped to a valid region"):
		return "make AWS_REGION the Region of the endpoint that is called, and look for AWS_ENDPOINT_URL in the environment"
	case strings.Contains(message, "does not have the specified index"), strings.Contains(message, "does not match the schema"):
		return fmt.Sprintf("compare the keys and indexes of %s with the stack's template: %s", orAny(resource), lookup(service, resource))
	}
	return ""
}

// unavailableHint speaks only where no connection came about: what answers with an error, or breaks off, is there.
func unavailableHint(err error, service string) string {
	var socket *net.OpError
	if !errors.As(err, &socket) || socket.Op != "dial" {
		return ""
	}
	return fmt.Sprintf("look for a way from here to %s (network, VPC endpoint, AWS_REGION, AWS_ENDPOINT_URL)", orService(service))
}

// lookup is the command that shows whether what was called is there.
func lookup(service, resource string) string {
	switch service {
	case "SQS":
		return "aws sqs get-queue-url --queue-name " + resource
	case "EventBridge":
		return "aws events describe-event-bus --name " + resource
	case "Lambda":
		return "aws lambda get-function-configuration --function-name " + resource
	}
	return "aws dynamodb describe-table --table-name " + resource
}

// Action is the IAM action that an operation of a service needs, by the SDK's name of the service or the service's own of its
// protocol; empty where one is missing. SQS asks of a batch what it asks of a single message (AWS service authorization reference, Amazon
// SQS).
func Action(service, operation string) string {
	if service == "" || operation == "" {
		return ""
	}
	prefix := strings.ToLower(strings.ReplaceAll(service, " ", ""))
	switch prefix {
	case "marketplacemetering":
		prefix = "aws-marketplace"
	case "eventbridge":
		prefix = "events"
	case "cloudwatchlogs":
		prefix = "logs"
	case "sqs":
		operation = strings.TrimSuffix(operation, "Batch")
	}
	return prefix + ":" + operation
}

func orNeeded(action string) string {
	if action == "" {
		return "that it needs"
	}
	return action
}

func orAny(resource string) string {
	if resource == "" {
		return "the resource"
	}
	return resource
}

func orService(service string) string {
	if service == "" {
		return "the service"
	}
	return service
}

// calledOf is the service and operation that the SDK was asked for.
func calledOf(err error) (service, operation string) {
	var called *smithy.OperationError
	if errors.As(err, &called) {
		return called.Service(), called.Operation()
	}
	return "", ""
}

func messageOf(err error) string {
	var refused smithy.APIError
	if errors.As(err, &refused) {
		return refused.ErrorMessage()
	}
	return ""
}
