// Package functions is the table of the Lambda functions: their handler names, what each reads from its environment, how it is
// called and of what it is built. One binary holds them all; cmd/bootstrap starts the one that Lambda asks for.
package functions

import (
	"fmt"
	"strings"
)

// Handler names, as a function's template gives them (AWS Lambda: Handler, which the runtime finds in _HANDLER).
const (
	Discoverer       = "discoverer"
	Aggregator       = "aggregator"
	Cleanup          = "cleanup"
	Submitter        = "submitter"
	SubmissionExpiry = "submission-expiry"

	Registration       = "registration"
	Subscription       = "subscription"
	DeprovisionCleanup = "deprovision-cleanup"
)

// Event is how AWS calls a function.
type Event string

// The events.
const (
	Schedule Event = "schedule" // the constant input of an EventBridge rule; the answer is the stage's report
	Queue    Event = "queue"    // a batch of an SQS queue; the answer names the messages that failed
	Request  Event = "request"  // a request of an API Gateway REST API; the answer is a response. It holds personal data
)

// Function is one Lambda function.
type Function struct {
	Handler string
	Purpose string
	Event   Event
	// Variables are all that it reads from its environment.
	Variables []Variable
	build     func(parts) stage
}

// All are the functions, in the order in which usage walks through them.
func All() []Function {
	return []Function{
		{
			Handler:   Discoverer,
			Purpose:   "finds waiting usage in the pending index and sends its groups on; ends what waited too long",
			Event:     Schedule,
			Variables: with(usageTable, aggregatedTable, subscribersTable, subscribersRegion, workQueue, deprovisionQueue, cleanupQueue, lockHours),
			build:     discoverer,
		},
		{
			Handler:   Aggregator,
			Purpose:   "turns the rows of a group into its record, once",
			Event:     Queue,
			Variables: with(usageTable, aggregatedTable, cleanupQueue),
			build:     aggregator,
		},
		{
			Handler:   Cleanup,
			Purpose:   "writes the labels of rows",
			Event:     Queue,
			Variables: with(usageTable),
			build:     cleanup,
		},
		{
			Handler:   Submitter,
			Purpose:   "sends records to the Marketplace and writes its verdicts back",
			Event:     Schedule,
			Variables: with(aggregatedTable, subscribersTable, subscribersRegion, maxRecords, callsPerSecond, submission, usageDays, aggregatedDays),
			build:     submitter,
		},
		{
			Handler:   SubmissionExpiry,
			Purpose:   "ends records whose hour can no longer be billed",
			Event:     Schedule,
			Variables: with(aggregatedTable),
			build:     submissionExpiry,
		},
		{
			Handler: Registration,
			Purpose: "answers a buyer's first click: the form, the profile, the subscriber",
			Event:   Request,
			Variables: with(profileTable, subscribersTable, subscribersRegion, registrationFields, promotedFields,
				sellerName, productName, supportContact, continueURL, allowedOrigin),
			build: register,
		},
		{
			Handler:   Subscription,
			Purpose:   "applies the Marketplace's events to the subscribers",
			Event:     Queue,
			Variables: []Variable{region, logLevel, meteringMode, subscribersTable, testStage, testAccounts},
			build:     subscription,
		},
		{
			Handler:   DeprovisionCleanup,
			Purpose:   "ends last hours that are over",
			Event:     Schedule,
			Variables: []Variable{region, logLevel, subscribersTable},
			build:     deprovisionCleanup,
		},
	}
}

// with is what every function of the metering stack reads, and more. The two of the events stack serve all products, in the Region
// of the subscribers table.
func with(more ...Variable) []Variable {
	return append([]Variable{region, logLevel, productCode, meteringMode}, more...)
}

// Named is the function of a handler name.
func Named(handler string) (Function, error) {
	var known []string
	for _, f := range All() {
		if f.Handler == handler {
			return f, nil
		}
		known = append(known, f.Handler)
	}
	return Function{}, fmt.Errorf("find function: there is no handler %q; the handlers are %s (it is set as Handler in the function's template)",
		handler, strings.Join(known, ", "))
}
