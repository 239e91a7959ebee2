package simulator

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"time"
)

// Figures of the real service, each with the page of the AWS documentation that states it.
const (
	DefaultProductCode     = "sim-product"
	DefaultWindow          = 24 * time.Hour  // API reference, BatchMeterUsage: records 24 hours old or more are refused
	DefaultCallsPerSecond  = 10              // seller guide, "Metering service quotas": per account and Region
	DefaultMaxRequestBytes = 1_000_000       // seller guide, vendor-metered tagging: a request is less than 1 MB
	DefaultTokenTTL        = 4 * time.Hour   // seller guide, SaaS customer onboarding: life of a registration token
	DefaultFutureTolerance = 5 * time.Minute // published nowhere
	DefaultCallLog         = 1000            // calls that Calls remembers; ours
	ClosingWindow          = time.Hour       // seller guide: last records after an unsubscription
	MonthEndGrace          = 6 * time.Hour   // API reference, UsageRecord: last month closes at 06:00 UTC on the 1st
	MaxRecordsPerCall      = 25              // API reference, BatchMeterUsage
	maxQuantity            = 1<<31 - 1
	maxAllocations         = 2500
	maxTags                = 5
)

// Refusal says how a record that cannot be billed is refused: the whole call by an exception, or the record alone by a status.
type Refusal string

const (
	ByException Refusal = "exception"
	ByStatus    Refusal = "status"
)

// ActivationError is the exception for usage from before its license was activated.
type ActivationError string

const (
	ActivationInvalidLicense       ActivationError = "InvalidLicenseException"
	ActivationTimestampOutOfBounds ActivationError = "TimestampOutOfBoundsException"
)

// Anchor names the event that opens a license's closing window.
type Anchor string

const (
	AnchorDeprovisioned Anchor = "deprovisioned"
	AnchorEnded         Anchor = "ended"
)

// Options are the settings of a Simulator. The zero value is the real service as documented, with no rate limit, for the product
// "sim-product", of which no customer and no license is known yet.
type Options struct {
	// ProductCode is the product that legacy calls must name, and that licenses and tokens without one belong to.
	ProductCode string
	// Dimensions are the product's defined dimensions, case-sensitive. Nil means that every dimension is defined.
	Dimensions []string
	// OpenDoors treats every well-formed license, account and identifier that was never put as active: for a first try.
	OpenDoors bool

	// Journal is the path of a file that keeps what the simulator holds over restarts: New reads it, or begins it, and every
	// change is appended before it takes effect and before it is answered. Call Close at the end. Empty: in memory only.
	//
	// The ledger, licenses, customers, suspensions, tokens and changed dimensions are kept. Faults, statistics, the log of calls and
	// the clock begin anew, and so do the other options. What was answered survives the death of the process, also by SIGKILL; it
	// is not synced to the disk, so the end of the file may be lost with the machine. One process at a time: enforced where there
	// is flock, not on Windows.
	Journal string

	// Now is the service's clock. Nil: real time plus an offset that Advance and SetTime move.
	Now func() time.Time
	// Sleep waits out a Latency fault, and returns early with the context's error. Nil: a timer.
	Sleep func(context.Context, time.Duration) error
	// Rand draws whether faults strike and the order of ShuffleResults, in [0,1). Nil: math/rand.
	Rand func() float64

	// Window is how old a record may be; exactly this old is too old. 0: 24 h.
	Window time.Duration
	// FutureTolerance is how far ahead of the clock a record may be. 0: 5 min.
	FutureTolerance time.Duration
	// CallsPerSecond limits BatchMeterUsage, with a burst of the same size. 0: unlimited. The real limit is DefaultCallsPerSecond.
	CallsPerSecond float64
	// MaxRequestBytes is the size a request body must stay under. 0: 1,000,000.
	MaxRequestBytes int64
	// TokenTTL is the life of a registration token. 0: 4 h.
	TokenTTL time.Duration
	// CallLog is how many calls Calls remembers. 0: 1000.
	CallLog int

	// The rest are switches: rules that AWS's documentation leaves open or states in two ways. docs/simulator.md has the table.

	// HourGranularWindow measures the window from the start of the current hour, up to 59:59 more generous.
	HourGranularWindow bool
	// GraceExtendsWindow lets the last Window of a month live on until 06:00 on the 1st, although it is older than Window.
	GraceExtendsWindow bool
	// UnknownCustomer is the answer for an identifier, account or license that does not exist or do not match. "": ByException.
	UnknownCustomer Refusal
	// AfterWindow is the answer for a license whose closing window is over. "": ByStatus.
	AfterWindow Refusal
	// BeforeActivation is the exception for usage from before the activation. "": ActivationInvalidLicense.
	BeforeActivation ActivationError
	// ClosingAnchor is the event that opens the closing hour. "": AnchorDeprovisioned. With AnchorEnded, a license that was
	// deprovisioned and never ended counts from its deprovisioning.
	ClosingAnchor Anchor
	// Disabled refuses every call with DisabledApiException, as in a Region that is not enabled.
	Disabled bool
	// ProseTagCharacters takes the set of characters that the seller guide lists for tags in place of the API's wider pattern.
	ProseTagCharacters bool
	// RecordTagKeyLimit reads "at most five tags" as five distinct keys over a whole record, not five per allocation.
	RecordTagKeyLimit bool
	// AllocationsDistinguish answers DuplicateRecord to a resend with the same quantity and other allocations.
	AllocationsDistinguish bool
	// ResendNeedsSubscription checks the subscription before the duplicates, so that an identical resend of billed usage is
	// refused once the license is closed or the buyer suspended.
	ResendNeedsSubscription bool
	// ShuffleResults answers in random order, for clients that must match results by content.
	ShuffleResults bool
}

func (o Options) withDefaults() (Options, error) {
	o.Dimensions = slices.Clone(o.Dimensions)
	setDefault(&o.ProductCode, DefaultProductCode)
	setDefault(&o.Window, DefaultWindow)
	setDefault(&o.FutureTolerance, DefaultFutureTolerance)
	setDefault(&o.MaxRequestBytes, DefaultMaxRequestBytes)
	setDefault(&o.TokenTTL, DefaultTokenTTL)
	setDefault(&o.CallLog, DefaultCallLog)
	setDefault(&o.UnknownCustomer, ByException)
	setDefault(&o.AfterWindow, ByStatus)
	setDefault(&o.BeforeActivation, ActivationInvalidLicense)
	setDefault(&o.ClosingAnchor, AnchorDeprovisioned)
	if o.Rand == nil {
		o.Rand = rand.Float64
	}
	if o.Sleep == nil {
		o.Sleep = sleep
	}
	return o, errors.Join(
		oneOf("UnknownCustomer", o.UnknownCustomer, ByException, ByStatus),
		oneOf("AfterWindow", o.AfterWindow, ByException, ByStatus),
		oneOf("BeforeActivation", o.BeforeActivation, ActivationInvalidLicense, ActivationTimestampOutOfBounds),
		oneOf("ClosingAnchor", o.ClosingAnchor, AnchorDeprovisioned, AnchorEnded),
		positive("Window", o.Window),
		positive("FutureTolerance", o.FutureTolerance),
		positive("MaxRequestBytes", o.MaxRequestBytes),
		positive("TokenTTL", o.TokenTTL),
		positive("CallLog", o.CallLog),
		rateOK(o.CallsPerSecond),
		productCodeOK(o.ProductCode),
	)
}

func setDefault[T comparable](field *T, value T) {
	var zero T
	if *field == zero {
		*field = value
	}
}

func oneOf[T ~string](name string, got, a, b T) error {
	if got == a || got == b {
		return nil
	}
	return fmt.Errorf("%s is %q: use %q or %q", name, got, a, b)
}

func positive[T ~int | ~int64](name string, v T) error {
	if v > 0 {
		return nil
	}
	return fmt.Errorf("%s is %v: it must be greater than zero", name, v)
}

func rateOK(rate float64) error {
	if rate >= 0 { // also refuses NaN
		return nil
	}
	return fmt.Errorf("CallsPerSecond is %v: use a rate, or 0 for no limit", rate)
}

func productCodeOK(code string) error {
	if wellFormedProductCode(code) {
		return nil
	}
	return fmt.Errorf("ProductCode is %q: use at most 255 letters, digits and -/=:_.@", code)
}
