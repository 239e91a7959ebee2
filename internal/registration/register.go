package registration

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"log/slog"
	"net/http"
	"regexp"
	"time"

	"github.com/awsmp/metering/internal/awsapi"
	"github.com/awsmp/metering/internal/metering"
)

// patience bounds a registration. API Gateway waits for 29 s at most (Amazon API Gateway quotas, integration timeout), and by then the
// buyer is to have been told something.
const patience = 20 * time.Second

// A write is tried so often, with a pause of up to writePause before the second try, which doubles. The AWS SDK repeats on its own below
// this; what is left is for the stores without one, and for a service that needs another second.
const (
	writeTries = 3
	writePause = 200 * time.Millisecond
)

// The steps of a registration, as the causes of failures name them.
const (
	resolving        = "Resolve"
	savingProfile    = "Profile"
	savingSubscriber = "Subscriber"
	incompleteAnswer = "ResolveIncomplete" // of ResolveCustomer: no account
)

// ending is how a request ends.
type ending struct {
	state     state
	customer  metering.Customer // as far as it is known
	detail    string            // what was wrong with the request
	problems  []problem         // with the fields
	cause     string            // of a failure: the step and the class
	err       error             // of a failure
	reference string            // stands on the page and in the log
}

func badRequest(detail string) *ending { return &ending{state: malformed, detail: detail} }

// register does what a well-formed request asks for. The profile is written first: what the buyer told is kept, whatever comes after.
func (h *Handler) register(ctx context.Context, v visit) ending {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	if v.submitted() {
		if found := problems(h.Fields, v.values); len(found) > 0 {
			return ending{state: invalidFields, problems: found}
		}
	}
	customer, err := h.Customers.Resolve(ctx, v.token)
	end := ending{customer: customer}
	switch {
	case errors.Is(err, metering.ErrTokenInvalid):
		end.state = invalidToken
		return end
	case errors.Is(err, metering.ErrTokenExpired):
		end.state = expiredToken
		return end
	case err != nil:
		return end.failed(resolving, err)
	case customer.ProductCode != h.ProductCode:
		end.state = wrongProduct
		return end
	case customer.Account == "":
		end.state, end.cause = contactSeller, incompleteAnswer
		return end
	case len(h.Fields) > 0 && !v.submitted():
		end.state = details
		return end
	}
	return h.record(ctx, v, end)
}

// record writes the profile and, where there is a license, the subscriber. Without one the details wait under the product's code, as those of
// a product that meters by identifier do for good.
func (h *Handler) record(ctx context.Context, v visit, end ending) ending {
	customer := end.customer
	license := cmp.Or(customer.License, h.ProductCode)
	now := h.Now()
	err := repeated(ctx, func() error {
		return h.Profiles.SaveProfile(ctx, metering.ProfileChange{
			License: license, Account: customer.Account, ProductCode: h.ProductCode, CustomerIdentifier: customer.CustomerIdentifier,
			Fields: v.told(), Promoted: h.Promoted, At: now,
		})
	})
	if err != nil {
		return end.failed(savingProfile, err)
	}
	if customer.License == "" && customer.CustomerIdentifier == "" {
		end.state = early
		return end
	}
	err = repeated(ctx, func() error {
		_, _, err := h.Subscribers.ChangeSubscriber(ctx, metering.Registered(license, customer.Account, h.ProductCode, h.Region, now))
		return err
	})
	if err != nil {
		return end.failed(savingSubscriber, err)
	}
	end.state = registered
	return end
}

func repeated(ctx context.Context, write func() error) error {
	return awsapi.Repeat(ctx, writeTries, writePause, func(err error) bool { return awsapi.ClassOf(err).Retry() }, write)
}

// failed is an end that the buyer could not help. What passes, they may try again.
func (e ending) failed(step string, err error) ending {
	class := awsapi.ClassOf(err)
	e.state, e.err, e.cause = contactSeller, err, step+string(class)
	if class.Retry() || class == awsapi.Ended {
		e.state = tryAgain
	}
	return e
}

// observe counts and logs how a request ended: never a value, never the token.
func (h *Handler) observe(v visit, end ending) {
	m := metering.Measure{Items: 1, Cause: string(end.state)}
	level := slog.LevelInfo
	switch end.state {
	case details: // nothing has come of it yet that could be counted
	case registered:
		m.Metric, m.Cause = metering.MetricRegistered, ""
	case early:
		m.Metric, m.Cause = metering.MetricRegistrationEarly, ""
	case tryAgain:
		m.Metric, m.Cause, level = metering.MetricRegistrationFailed, end.cause, slog.LevelWarn
	case contactSeller:
		m.Metric, m.Cause, level = metering.MetricRegistrationFailed, end.cause, slog.LevelError
	case wrongProduct: // the address of this page stands in another product's listing, or the code in this one's settings is wrong
		m.Metric, level = metering.MetricRegistrationRefused, slog.LevelWarn
	default:
		m.Metric = metering.MetricRegistrationRefused
	}
	if m.Metric != "" {
		h.Metrics.Emit(m)
	}
	attrs := []slog.Attr{slog.String("outcome", string(end.state)), slog.Int("fields", len(v.told())), slog.String("reference", end.reference)}
	add := func(name, value string) {
		if value != "" {
			attrs = append(attrs, slog.String(name, value))
		}
	}
	if end.customer.License != "" {
		add("license", metering.Masked(end.customer.License))
	}
	if end.customer.Account != "" {
		add("account", metering.Masked(end.customer.Account))
	}
	if end.state == wrongProduct {
		add("product", end.customer.ProductCode)
	}
	add("cause", end.cause)
	if end.err != nil {
		add("error", v.without(end.err))
	}
	h.Log.LogAttrs(context.Background(), level, "registration", attrs...)
}

// reference is the number by which a buyer's question leads to a line of the log: the request's id in API Gateway, whose access log has it
// too, or one drawn here.
func reference(r *http.Request) string {
	id := r.Header.Get("X-Amzn-Requestid")
	if regexp.MustCompile(`^[0-9A-Za-z-]{8,64}$`).MatchString(id) {
		return id
	}
	return rand.Text()[:12]
}
