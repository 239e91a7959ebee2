// Package registration is a buyer's first click: AWS Marketplace sends their browser here with a token, the token is resolved to a license
// and an account, the buyer tells what the seller asks for, and both are written down. Where a program asks in place of a browser it is
// answered in JSON.
//
// What a buyer tells is personal. It goes into the customer-profile table and into the page that the buyer gets back, and nowhere else: no log,
// no metric, no other table. The token goes into no table either, and into no address.
package registration

import (
	"context"
	"log/slog"
	"net/http"
	"time"

	"github.com/awsmp/metering/internal/metering"
)

// Customers resolves registration tokens.
type Customers interface {
	// Resolve fails with metering.ErrTokenInvalid and metering.ErrTokenExpired, by errors.Is, where the token is no good; awsapi.ClassOf tells
	// the class of all other errors. No error says a word of the token.
	Resolve(ctx context.Context, token string) (metering.Customer, error)
}

// Profiles is the customer-profile table.
type Profiles interface {
	// SaveProfile may be repeated: it adds the same again. No error says a word of a field's value.
	SaveProfile(ctx context.Context, c metering.ProfileChange) error
}

// Subscribers is the subscribers table.
type Subscribers interface {
	// ChangeSubscriber may be repeated: a change that stands already changes nothing.
	ChangeSubscriber(ctx context.Context, c metering.SubscriberChange) (s metering.Subscriber, changed bool, err error)
}

// Metrics takes observations in.
type Metrics interface {
	Emit(m metering.Measure)
}

// Handler answers a buyer's first click, under whatever path it is served. It is safe for concurrent use.
type Handler struct {
	Settings
	Customers   Customers
	Profiles    Profiles
	Subscribers Subscribers
	Metrics     Metrics
	Now         func() time.Time
	Log         *slog.Logger // gets what became of each registration, and no word that a buyer typed
}

const (
	allowedMethods = "GET, HEAD, POST, OPTIONS"
	// corsAge is for how long a browser may remember that the allowed origin is allowed.
	corsAge = "600"
	// retryAfter is in seconds: long enough for throttling to pass, short enough for a person.
	retryAfter = "5"
)

// ServeHTTP answers a request.
func (h *Handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	h.secure(w.Header())
	known := h.cross(w.Header(), r)
	switch r.Method {
	case http.MethodOptions:
		w.Header().Set("Allow", allowedMethods)
		if known {
			w.Header().Set("Access-Control-Allow-Methods", http.MethodPost)
			w.Header().Set("Access-Control-Allow-Headers", "Content-Type")
			w.Header().Set("Access-Control-Max-Age", corsAge)
		}
		w.WriteHeader(http.StatusNoContent)
	case http.MethodGet, http.MethodHead:
		h.answer(w, r, visit{data: prefersJSON(r)}, ending{state: welcome})
	case http.MethodPost:
		v, end := h.read(w, r)
		if end == nil {
			end = new(h.register(r.Context(), v))
		}
		end.reference = reference(r)
		h.observe(v, *end)
		h.answer(w, r, v, *end)
	default:
		w.Header().Set("Allow", allowedMethods)
		h.answer(w, r, visit{data: prefersJSON(r)}, ending{state: methodNotAllowed})
	}
}

// secure sets the headers that every answer has. The page has one style, known by its hash, and nothing else: no script, no picture, no
// address but its own that a form could send to.
func (h *Handler) secure(header http.Header) {
	for name, value := range map[string]string{
		"Cache-Control":             "no-store",
		"X-Content-Type-Options":    "nosniff",
		"X-Frame-Options":           "DENY",
		"Strict-Transport-Security": "max-age=63072000",
		"Referrer-Policy":           "no-referrer",
		"Content-Security-Policy": "default-src 'none'; style-src '" + styleHash() +
			"'; img-src data:; form-action 'self'; frame-ancestors 'none'; base-uri 'none'",
	} {
		header.Set(name, value)
	}
}

// cross lets the page of the allowed origin, and no other, read answers (F49). It reports whether the request is that page's.
func (h *Handler) cross(header http.Header, r *http.Request) bool {
	header.Add("Vary", "Accept, Origin")
	if h.AllowedOrigin == "" || r.Header.Get("Origin") != h.AllowedOrigin {
		return false
	}
	header.Set("Access-Control-Allow-Origin", h.AllowedOrigin)
	header.Set("Access-Control-Expose-Headers", "Retry-After")
	return true
}
