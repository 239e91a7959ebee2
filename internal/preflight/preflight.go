// Package preflight looks, before a stack is deployed, at what its deployment and its work depend on: the caller, the Region, the account's quotas,
// and what stands there already. It changes nothing.
package preflight

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/cloudformation/types"
	"github.com/awsmp/metering/internal/awsapi"
)

// Result is how a check came out.
type Result string

// The results.
const (
	OK      Result = "ok"
	Warning Result = "warning" // the deployment works, and something is worth to be known
	Problem Result = "problem" // the deployment fails, or what it makes does not work
	Unknown Result = "unknown" // it could not be looked at
)

// Check is one thing that was looked at.
type Check struct {
	Name   string `json:"name"`
	Result Result `json:"result"`
	Found  string `json:"found"`            // in words
	Try    string `json:"try,omitempty"`    // the command or parameter that helps
	Action string `json:"action,omitempty"` // the IAM action that the caller lacks, where that is why it is unknown
}

// Report is what was found.
type Report struct {
	Account    string   `json:"account,omitempty"` // of the caller
	Region     string   `json:"region,omitempty"`
	Checks     []Check  `json:"checks"`
	Parameters []string `json:"parameters"` // to be given to the metering stack, as Name=Value
}

// Count is how many checks came out so.
func (r Report) Count(result Result) (n int) {
	for _, c := range r.Checks {
		if c.Result == result {
			n++
		}
	}
	return n
}

// Options say what is going to be deployed, and where.
type Options struct {
	// Config is the configuration of the clients of a Region, of the environment's where the name is empty; nil means awsapi.Config.
	Config       func(ctx context.Context, region string) (aws.Config, error)
	Region       string // empty: the environment's
	EventsRegion string // of the events stack; empty: us-east-1
	ProductCode  string // empty: what depends on it is not looked at
	Topic        string // ARN of the topic of the alarms; empty: there is none
	DryRun       bool   // the stack is going to be a dry run
	Template     string // file of the metering template
}

// homeRegion is where AWS Marketplace sends its events (AWS Marketplace seller guide, Amazon EventBridge).
const homeRegion = "us-east-1"

// look is one run.
type look struct {
	Options
	report Report
	here   aws.Config
	events aws.Config
	own    *types.Stack // the metering stack, where it is there already
	ownErr error        // why nobody knows
}

// Run looks at everything. What cannot be looked at is in the report, and no error.
func Run(ctx context.Context, o Options) Report {
	if o.Config == nil {
		o.Config = awsapi.Config
	}
	if o.EventsRegion == "" {
		o.EventsRegion = homeRegion
	}
	l := &look{Options: o, report: Report{Checks: []Check{}, Parameters: []string{}}}
	l.productCode()
	l.templateSize()
	known := l.configure(ctx)
	if known {
		l.region()
	}
	if !known || !l.credentials(ctx) {
		l.blind("Region enabled", "Lambda concurrency", "API Gateway log role", "events stack", "names")
		if o.Topic != "" {
			l.blind("alerts topic")
		}
		return l.report
	}
	l.regionEnabled(ctx)
	l.own, l.ownErr = l.metering(ctx)
	l.concurrency(ctx)
	l.logRole(ctx)
	l.topic(ctx)
	l.eventsStack(ctx)
	l.names(ctx)
	return l.report
}

// configure finds the settings of both Regions.
func (l *look) configure(ctx context.Context) bool {
	var err error
	if l.here, err = l.Config(ctx, l.Region); err == nil {
		l.events, err = l.Config(ctx, l.EventsRegion)
	}
	if err != nil {
		l.failed("Region", "", err)
		return false
	}
	l.report.Region = l.here.Region
	return true
}

func (l *look) add(name string, result Result, try, format string, args ...any) {
	l.report.Checks = append(l.report.Checks, Check{Name: name, Result: result, Found: fmt.Sprintf(format, args...), Try: try})
}

// blind notes what cannot be looked at.
func (l *look) blind(names ...string) {
	for _, name := range names {
		l.add(name, Unknown, "", "not looked at, since AWS was not")
	}
}

// failed notes that a check's call failed. What the caller may not see is unknown, with the action that it lacks; missing credentials are a problem
// wherever they turn up.
func (l *look) failed(name, action string, err error) {
	err = awsapi.Wrap("look", "", err)
	c := Check{Name: name, Result: Unknown, Found: because(err)}
	var called *awsapi.Error
	errors.As(err, &called)
	switch awsapi.ClassOf(err) {
	case awsapi.Denied:
		c.Action, c.Found, c.Try = action, "the caller may not look: "+action, "allow the caller "+action
	case awsapi.Credentials, awsapi.Invalid:
		c.Result, c.Try = Problem, called.Hint
		if strings.Contains(c.Try, "AWS_REGION=") && l.Region == "" {
			c.Try += "; or --region us-east-1"
		}
	default:
		c.Try = called.Hint
	}
	l.report.Checks = append(l.report.Checks, c)
}

// because is why a call failed, in one line and without what to do about it.
func because(err error) string {
	text := err.Error()
	var called *awsapi.Error
	if errors.As(err, &called) {
		text = strings.TrimPrefix(called.Error(), called.Operation+": ")
		text = strings.TrimSuffix(text, ". Try: "+called.Hint)
	}
	return text
}

// parameter notes a parameter of the metering stack that the deployment needs.
func (l *look) parameter(list ...string) { l.report.Parameters = append(l.report.Parameters, list...) }
