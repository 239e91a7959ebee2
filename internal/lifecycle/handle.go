package lifecycle

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"time"

	"github.com/awsmp/metering/internal/metering"
	"github.com/awsmp/metering/internal/pipeline"
)

// Handler applies the Marketplace's events to the subscribers table. Events may come in any order and as often as they like.
type Handler struct {
	Subscribers  Subscribers
	Metrics      Metrics
	TestStage    string   // the one whose test events are taken; empty takes none
	TestAccounts []string // of the buyers that they may be about
	Now          func() time.Time
	Log          *slog.Logger
}

// Applied is what became of an event.
type Applied struct {
	Kind     string   `json:"kind"`
	Ignored  string   `json:"ignored,omitempty"` // why nothing was done
	Licenses []Change `json:"licenses"`          // that it concerns
}

// Change is a license after an event.
type Change struct {
	License         string                   `json:"license"`
	Account         string                   `json:"account"`
	Changed         bool                     `json:"changed"` // false: it was so before
	Status          metering.LifecycleStatus `json:"status,omitempty"`
	AgreementStatus metering.LifecycleStatus `json:"agreementStatus,omitempty"`
	Expiry          time.Time                `json:"expiry,omitzero"` // end of the last hour, while it lasts
}

const (
	// Ended and Amended of an agreement without a license here are given up when their message is so old and was delivered so often: the
	// agreement is then taken for one of another product of the account. Until then they may have outrun License Updated or the index (F29);
	// where the queue stood still, age alone tells nothing. It is less than the hour after which a queue gives a message up.
	unknownAfter    = 45 * time.Minute
	unknownReceives = 3

	// settledAfter is how old the message of Ended or Amended must be to be done at its first delivery. The index may not yet show a license
	// that was written right before, and that license did not see there what the others were to hear only now: the second delivery, minutes
	// later, finds it.
	settledAfter = 5 * time.Minute
)

// errOnceMore says that an event was applied, and shall be again.
var errOnceMore = errors.New("applied, and applied once more when the index has settled")

// Handle applies the event of each message and names the messages that must be delivered again; the others are done. One that cannot be
// resolved comes again because what it waits for may be there by then. Events of licenses go first: those of agreements look for what they
// have written.
func (h *Handler) Handle(ctx context.Context, batch []pipeline.Message) (failed []string) {
	events, errs := make([]event, len(batch)), make([]error, len(batch))
	for i, m := range batch {
		events[i], errs[i] = parseEvent([]byte(m.Body), h.Now())
	}
	for _, ofLicense := range []bool{true, false} {
		for i, m := range batch {
			if events[i].ofLicense() != ofLicense {
				continue
			}
			if errs[i] == nil {
				errs[i] = h.handle(ctx, m, events[i])
			}
			if errors.Is(errs[i], errOnceMore) {
				logger(h.Log).Debug("event applied; its message will be delivered once more", "message", m.ID)
			} else if errs[i] != nil {
				logger(h.Log).Error("event not applied; its message will be delivered again", "message", m.ID, "error", errs[i])
				if !errors.Is(errs[i], ErrUnresolved) { // that one may only have outrun another
					h.Metrics.Emit(metering.Measure{Metric: metering.MetricEventFailed, Items: 1, Cause: events[i].name()})
				}
			}
		}
	}
	for i, m := range batch {
		if errs[i] != nil {
			failed = append(failed, m.ID)
		}
	}
	return failed
}

func (h *Handler) handle(ctx context.Context, m pipeline.Message, e event) error {
	now := h.Now()
	a, err := h.apply(ctx, e, now, m.Receives == 1)
	age, dated := now.Sub(m.SentAt), !m.SentAt.IsZero()
	switch {
	case e.ofLicense() || a.Ignored != "":
		return err
	case errors.Is(err, ErrUnresolved) && dated && age >= unknownAfter && m.Receives >= unknownReceives:
		logger(h.Log).Warn("no license here belongs to the event's agreement", "kind", e.name(), "event", e.id)
		h.Metrics.Emit(metering.Measure{Metric: metering.MetricAgreementUnknown, Items: 1, Cause: e.name()})
		return nil
	case err == nil && dated && age < settledAfter && m.Receives == 1:
		return errOnceMore
	}
	return err
}

// Apply applies one EventBridge event, given as JSON. It fails with ErrNoEvent for what is none, and with ErrUnresolved where the license that it
// concerns is not known: the same event may succeed later.
func (h *Handler) Apply(ctx context.Context, body []byte) (Applied, error) {
	now := h.Now()
	e, err := parseEvent(body, now)
	if err != nil {
		return Applied{}, err
	}
	return h.apply(ctx, e, now, false)
}

// apply applies an event. It is fresh if this is known to be the first time.
func (h *Handler) apply(ctx context.Context, e event, now time.Time, fresh bool) (Applied, error) {
	a := Applied{Kind: e.name(), Licenses: []Change{}}
	var metric metering.Metric
	if a.Ignored, metric = h.ignored(e); a.Ignored != "" {
		logger(h.Log).Info("event ignored", "kind", a.Kind, "event", e.id, "why", a.Ignored)
		h.Metrics.Emit(metering.Measure{Metric: metric, Items: 1, Cause: a.Kind})
		return a, nil
	}
	var err error
	if e.ofLicense() {
		err = h.applyToLicense(ctx, e, now, fresh, &a)
	} else {
		err = h.applyToAgreement(ctx, e, now, &a)
	}
	if err != nil {
		err = fmt.Errorf("apply %s: %w", a.Kind, err)
	}
	return a, err
}

// ignored says why an event is not applied, and how that is counted.
func (h *Handler) ignored(e event) (why string, metric metering.Metric) {
	stage, test := strings.CutPrefix(e.source, testSources)
	switch {
	case test && (h.TestStage == "" || stage != h.TestStage):
		return "test events of its stage are not taken here", metering.MetricTestEventRefused
	case test && !slices.Contains(h.TestAccounts, e.account):
		return "its account is none that test events may be about", metering.MetricTestEventRefused
	case !test && e.source != Source:
		return "it is none of the Marketplace's events of agreements and licenses", metering.MetricEventIgnored
	case !e.matters():
		return "metering has no use for events of its kind", metering.MetricEventIgnored
	}
	return "", ""
}

// applyToLicense applies License Updated and License Deprovisioned. Their own change is written first: no last hour waits for what others
// have heard.
//
// A license catches up with its agreement as it joins it. From then on the index shows it, and it hears Ended and Amended itself. It need not
// ask again: an agreement of 1,000 licenses that are deprovisioned at once would make each read the thousand, a million items in all. An
// event that comes again may be one whose catching up failed the first time, when the license was new: then it asks in any case.
func (h *Handler) applyToLicense(ctx context.Context, e event, now time.Time, fresh bool, a *Applied) error {
	license, account, err := h.licenseOf(ctx, e)
	if err != nil {
		return err
	}
	told := metering.LicenseEvent{License: license, Account: account, Agreement: e.agreement, ProductCode: e.product, At: e.at}
	change := told.UpdatedAt(now)
	if e.kind == LicenseDeprovisioned {
		change = told.DeprovisionedAt(now)
	}
	joined := false
	s, changed, err := h.change(ctx, change.Joining(&joined))
	if err != nil {
		return err
	}
	if joined || !fresh {
		var caughtUp bool
		s, caughtUp, err = h.catchUp(ctx, s, now)
		changed = changed || caughtUp
	}
	a.Licenses = append(a.Licenses, h.told(e, s, changed))
	return err
}

// catchUp tells a license the latest that the others of its agreement have heard of the agreement: Ended and Amended are told once, to those
// that are known at that moment. It writes only what is new, twice at most, however many the others are.
func (h *Handler) catchUp(ctx context.Context, s metering.Subscriber, now time.Time) (after metering.Subscriber, changed bool, err error) {
	others, err := h.members(ctx, event{agreement: s.Agreement})
	if err != nil {
		return s, false, err
	}
	ended, amended := metering.AgreementEvent{Agreement: s.Agreement}, metering.AgreementEvent{Agreement: s.Agreement}
	for _, o := range others {
		if o.Account != s.Account {
			continue
		}
		if o.AgreementEnded.After(ended.At) {
			ended.At = o.AgreementEnded
		}
		if told := (metering.AgreementEvent{Agreement: s.Agreement, Start: o.AgreementStart, End: o.AgreementEnd, At: o.AgreementAmended}); told.Amends(amended) {
			amended = told
		}
	}
	for _, c := range []metering.SubscriberChange{ended.EndedAt(s.License, s.Account, now), amended.AmendedAt(s.License, s.Account, now)} {
		if _, news := c.Apply(&s); !news { // s is what was just written or read
			continue
		}
		written, wrote, err := h.change(ctx, c)
		if err != nil {
			return s, changed, err
		}
		s, changed = written, changed || wrote
	}
	return s, changed, nil
}

// applyToAgreement applies Ended and Amended to every license of the agreement. It looks again until the index shows no more: one that is
// written meanwhile either shows there, or sees in catchUp what was told to the others.
func (h *Handler) applyToAgreement(ctx context.Context, e event, now time.Time, a *Applied) error {
	told := metering.AgreementEvent{Agreement: e.agreement, Start: e.start, End: e.end, At: e.at}
	change := told.AmendedAt
	if e.kind == AgreementEnded {
		change = told.EndedAt
	}
	seen := make(map[[2]string]bool)
	var problems []error
	for fresh := true; fresh; {
		fresh = false
		members, err := h.members(ctx, e)
		problems = append(problems, err)
		for _, m := range members {
			at := [2]string{m.License, m.Account}
			if seen[at] || e.source != Source && m.Account != e.account { // a test event is about its own account alone
				continue
			}
			seen[at], fresh = true, true
			s, changed, err := h.change(ctx, change(m.License, m.Account, now))
			problems = append(problems, err)
			if s.Agreement == e.agreement && err == nil { // the index may show one that has moved on
				a.Licenses = append(a.Licenses, h.told(e, s, changed))
			}
		}
	}
	if err := errors.Join(problems...); err != nil {
		return err
	}
	if len(a.Licenses) == 0 {
		return fmt.Errorf("%w: its agreement shows none", ErrUnresolved)
	}
	return nil
}

func (h *Handler) change(ctx context.Context, c metering.SubscriberChange) (metering.Subscriber, bool, error) {
	s, changed, err := h.Subscribers.ChangeSubscriber(ctx, c)
	if err != nil {
		return s, changed, fmt.Errorf("change the subscriber: %w", err)
	}
	return s, changed, nil
}

// told tells the log, and the caller, how a license stands after an event.
func (h *Handler) told(e event, s metering.Subscriber, changed bool) Change {
	logger(h.Log).Info("event applied", "kind", e.name(), "event", e.id, "at", e.at, "license", s.License, "account", s.Account,
		"changed", changed, "status", s.Status, "agreementStatus", s.AgreementStatus)
	return Change{
		License: s.License, Account: s.Account, Changed: changed,
		Status: s.Status, AgreementStatus: s.AgreementStatus, Expiry: s.Expiry,
	}
}

func logger(l *slog.Logger) *slog.Logger {
	if l == nil {
		return slog.New(slog.DiscardHandler)
	}
	return l
}
