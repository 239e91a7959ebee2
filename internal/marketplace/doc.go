// Package marketplace is the client side of the AWS Marketplace Metering Service: it paces calls, tells a record's fault from
// the service's, isolates the poisonous record, and hands every verdict back as soon as it is known.
package marketplace
