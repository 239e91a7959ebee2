// Package simulator is a local AWS Marketplace Metering Service: the two operations that a SaaS seller calls,
// BatchMeterUsage and ResolveCustomer, in the wire protocol of the real one (AWS JSON 1.1), so that the official
// SDK of any language can be pointed at it.
//
// It states the rules of the service on its own: it shares no code with a program that meters through it, so a mistake in one
// is not repeated in the other. Where AWS's documentation leaves a rule open, the rule is a switch in Options.
//
// A Simulator is an http.Handler. Serve it on a socket with net/http or httptest, or skip the socket with Client:
//
//	sim, err := simulator.New(simulator.Options{OpenDoors: true})
//	client := marketplacemetering.New(marketplacemetering.Options{
//		Region:       "us-east-1",
//		BaseEndpoint: aws.String(simulator.Endpoint),
//		HTTPClient:   sim.Client(),
//		Credentials:  aws.AnonymousCredentials{},
//	})
//
// What it holds is in memory and gone with the value, unless Options.Journal names a file to keep it in.
package simulator
