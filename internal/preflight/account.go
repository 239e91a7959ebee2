package preflight

import (
	"context"
	"fmt"
	"strconv"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/apigateway"
	"github.com/aws/aws-sdk-go-v2/service/lambda"
	"github.com/aws/aws-sdk-go-v2/service/sts"

	"github.com/awsmp/metering/internal/awsapi"
)

// credentials looks at who asks, where every account is: in the Region of the events.
func (l *look) credentials(ctx context.Context) bool {
	const name = "credentials"
	out, err := sts.NewFromConfig(l.events).GetCallerIdentity(ctx, &sts.GetCallerIdentityInput{})
	if err != nil {
		l.failed(name, "sts:GetCallerIdentity", err)
		if awsapi.ClassOf(awsapi.Wrap("", "", err)) == awsapi.Unavailable { // then nothing can be looked at, nor deployed
			l.report.Checks[len(l.report.Checks)-1].Result = Problem
		}
		return false
	}
	l.report.Account = aws.ToString(out.Account)
	l.add(name, OK, "", "%s; it has to be the account that published the product", aws.ToString(out.Arn))
	return true
}

// regionEnabled looks at whether the account has the Region: credentials that are good elsewhere are unknown in one that is not enabled (AWS Account
// Management reference, enable or disable Regions).
func (l *look) regionEnabled(ctx context.Context) {
	const name = "Region enabled"
	_, err := sts.NewFromConfig(l.here).GetCallerIdentity(ctx, &sts.GetCallerIdentityInput{})
	switch {
	case err == nil:
		l.add(name, OK, "", "the account may use %s", l.here.Region)
	case awsapi.ClassOf(awsapi.Wrap("", "", err)) == awsapi.Credentials:
		l.add(name, Problem, "aws account enable-region --region-name "+l.here.Region+", and wait until it is", "%s does not know the account's credentials: it is not enabled, or they are session tokens of another kind", l.here.Region)
	default:
		l.failed(name, "sts:GetCallerIdentity", err)
	}
}

// Need is what a metering stack takes of the account's Lambda concurrency by its parameters' defaults.
type Need struct{ Discoverer, Submitter, Expiry, Aggregator int }

// Defaults are those of the parameters DiscovererReservedConcurrency, SubmitterReservedConcurrency, ExpiryReservedConcurrency and
// AggregatorMaximumConcurrency.
func Defaults() Need { return Need{Discoverer: 30, Submitter: 1, Expiry: 1, Aggregator: 20} }

const (
	// unreserved is how much of an account's concurrency Lambda keeps unreserved (AWS Lambda developer guide, reserved concurrency).
	unreserved = 100
	// smallest is the least that AggregatorMaximumConcurrency takes.
	smallest = 2
)

// concurrency holds what the stack reserves against what the account has left.
func (l *look) concurrency(ctx context.Context) {
	const name = "Lambda concurrency"
	out, err := lambda.NewFromConfig(l.here).GetAccountSettings(ctx, &lambda.GetAccountSettingsInput{})
	if err != nil {
		l.failed(name, "lambda:GetAccountSettings", err)
		return
	}
	if out.AccountLimit == nil {
		l.add(name, Unknown, "", "AWS tells no limits")
		return
	}
	quota, free := int(out.AccountLimit.ConcurrentExecutions), int(aws.ToInt32(out.AccountLimit.UnreservedConcurrentExecutions))
	free += l.reserved()
	fit, given := Fitting(quota, free)
	if len(given) == 0 {
		l.add(name, OK, "", "%d of %d executions are unreserved: %d can be reserved", free, quota, fit.Discoverer+fit.Submitter+fit.Expiry)
		return
	}
	l.parameter(given...)
	d := Defaults()
	request := fmt.Sprintf("--parameter-overrides %s; or ask for more: aws service-quotas request-service-quota-increase --region %s --service-code lambda --quota-code L-B99A9384 --desired-value 1000", strings.Join(given, " "), l.here.Region)
	l.add(name, Problem, request, "%d of %d executions are unreserved, and AWS keeps %d so: the %d that the stack reserves do not fit", free, quota, unreserved, d.Discoverer+d.Submitter+d.Expiry)
}

// reserved is what the stack reserves already, where it is there: an update needs no more room for that.
func (l *look) reserved() (n int) {
	if l.own == nil || !stands(*l.own) || parameterOf(*l.own, "DeploymentMode") == "direct-submit" {
		return 0
	}
	for _, name := range []string{"DiscovererReservedConcurrency", "SubmitterReservedConcurrency", "ExpiryReservedConcurrency"} {
		one, _ := strconv.Atoi(parameterOf(*l.own, name)) // none reserves none
		n += one
	}
	return n
}

// Fitting is what fits into an account's quota of which so much is unreserved, and the parameters that say so; none where the defaults do.
func Fitting(quota, free int) (Need, []string) {
	n, room := Defaults(), free-unreserved
	if room >= n.Discoverer+n.Submitter+n.Expiry {
		return n, nil
	}
	given := []string{}
	if room >= n.Submitter+n.Expiry { // one run at a time first: it keeps the pace
		if n.Discoverer = room - n.Submitter - n.Expiry; n.Discoverer > 0 {
			return n, append(given, fmt.Sprintf("DiscovererReservedConcurrency=%d", n.Discoverer))
		}
		given = append(given, "DiscovererReservedConcurrency=none")
	} else {
		n.Discoverer, n.Submitter, n.Expiry = 0, 0, 0
		given = append(given, "DiscovererReservedConcurrency=none", "SubmitterReservedConcurrency=none", "ExpiryReservedConcurrency=none")
	}
	if quota < unreserved {
		n.Aggregator = smallest
		given = append(given, fmt.Sprintf("AggregatorMaximumConcurrency=%d", n.Aggregator))
	}
	return n, given
}

// logRole looks at API Gateway's one role for logs of the account in the Region.
func (l *look) logRole(ctx context.Context) {
	const name = "API Gateway log role"
	out, err := apigateway.NewFromConfig(l.here).GetAccount(ctx, &apigateway.GetAccountInput{})
	if err != nil {
		l.failed(name, "apigateway:GET", err)
		return
	}
	arn := aws.ToString(out.CloudwatchRoleArn)
	if arn == "" {
		l.add(name, OK, "", "none is set, and the stack makes one (CreateApiGatewayLogRole=true, the default)")
		return
	}
	l.parameter("CreateApiGatewayLogRole=false")
	l.add(name, Warning, "--parameter-overrides CreateApiGatewayLogRole=false, if aws iam get-role --role-name "+arn[strings.LastIndexByte(arn, '/')+1:]+" finds it",
		"%s is set already, for all APIs of the account in %s: the stack would put its own in its place", arn, l.here.Region)
}
