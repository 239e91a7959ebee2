// Package lifecycle keeps the subscribers table: it applies the Marketplace's events to it, and ends last hours that are over. What an
// event changes is decided in package metering; here events are read, licenses are found, and changes are asked for.
package lifecycle

import (
	"context"
	"iter"

	"github.com/awsmp/metering/internal/metering"
)

// Subscribers is the subscribers table.
type Subscribers interface {
	// ChangeSubscriber makes a change, on what stands there at that moment. It returns the subscriber after it, and whether there was
	// anything to write; the zero Subscriber where there is none.
	ChangeSubscriber(ctx context.Context, c metering.SubscriberChange) (s metering.Subscriber, changed bool, err error)
	// AgreementSubscribers reads the licenses of an agreement from an index, all pages. The index may lag behind the table.
	AgreementSubscribers(ctx context.Context, agreement string) iter.Seq2[metering.Subscriber, error]
	// Deprovisioning lists the licenses in their last hour, the one that ends first at the head; also those for which it is over and that
	// nobody has ended yet. Beside an error stands what could be read.
	Deprovisioning(ctx context.Context) ([]metering.Deprovisioning, error)
}

// Metrics takes observations in.
type Metrics interface {
	Emit(m metering.Measure)
}
