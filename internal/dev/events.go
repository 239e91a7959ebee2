package dev

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"

	"github.com/awsmp/metering/internal/lifecycle"
	"github.com/awsmp/metering/internal/metering"
	"github.com/awsmp/metering/internal/node"
	"github.com/awsmp/metering/simulator"
)

// maxEvents bounds the body of POST /v1/events. EventBridge itself takes no event of more than 256 KB in an archive, and no call of more
// than 1 MB.
const maxEvents = 1 << 20

// EventResult is what became of an event. Where an array was sent, each of its elements has one, in order.
type EventResult struct {
	Status             int `json:"status,omitempty"` // of an element: 200, or why not, as the answer of a single event would be
	*lifecycle.Applied     // set also beside a Problem where a part was done before it
	*Problem               // set where the event was not applied, or not as a whole
}

// postEvents applies an EventBridge event, or each of an array of them. One event is answered 200 with what became of it, or with its
// problem's status; an array 200 where all were applied, and otherwise 207.
func (m *Machine) postEvents(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxEvents))
	if errors.As(err, new(*http.MaxBytesError)) {
		fail(w, http.StatusRequestEntityTooLarge, fmt.Sprintf("the request is larger than %d bytes; nothing of it was applied", maxEvents), "send fewer events at a time")
		return
	}
	if err != nil {
		fail(w, http.StatusBadRequest, errBrokenOff.Error()+"; nothing of it was applied", "send it again")
		return
	}
	ctx := context.WithoutCancel(r.Context()) // an agreement's licenses are not left half way
	if body = bytes.TrimSpace(body); !bytes.HasPrefix(body, []byte("[")) {
		result := m.apply(ctx, body)
		status := result.Status
		result.Status = 0
		answer(w, status, result)
		return
	}
	var events []json.RawMessage
	if err := json.Unmarshal(body, &events); err != nil {
		fail(w, http.StatusBadRequest, "the array cannot be read, and nothing of it was applied: "+err.Error(), eventHint)
		return
	}
	results, status := make([]EventResult, len(events)), http.StatusOK
	for i, event := range events {
		if results[i] = m.apply(ctx, event); results[i].Problem != nil {
			status = http.StatusMultiStatus
		}
	}
	answer(w, status, results)
}

const eventHint = "send an event as EventBridge delivers it, with a time by this node's clock: awsmp events send license-updated --print shows one"

// apply applies an event to the subscribers, and to the simulated Marketplace, one event at a time.
func (m *Machine) apply(ctx context.Context, event []byte) EventResult {
	m.events.Lock()
	defer m.events.Unlock()
	applied, err := m.node.Lifecycle.Apply(ctx, event)
	m.tellApplied(applied)
	if err == nil {
		err = m.follow(ctx, applied)
	}
	result := EventResult{Status: http.StatusOK}
	if err == nil || len(applied.Licenses) > 0 {
		result.Applied = &applied
	}
	switch {
	case err == nil:
	case errors.Is(err, lifecycle.ErrUnresolved):
		result.Status, result.Problem = http.StatusConflict, &Problem{err.Error(), "send the License Updated of the agreement first, or name the license in the event"}
	case errors.Is(err, lifecycle.ErrNoEvent):
		result.Status, result.Problem = http.StatusBadRequest, &Problem{err.Error(), eventHint}
	default:
		result.Status, result.Problem = http.StatusInternalServerError, &Problem{err.Error(), brokenHint(err, "send the event again: a repeat changes nothing that is done already")}
	}
	return result
}

// EventsStage is the name under which Options.Observe is told of events that changed something.
const EventsStage = "events"

func (m *Machine) tellApplied(applied lifecycle.Applied) {
	changed := len(slices.DeleteFunc(slices.Clone(applied.Licenses), func(c lifecycle.Change) bool { return !c.Changed }))
	if changed > 0 && m.options.Observe != nil {
		e := node.Event{At: m.clock.Now(), Stage: EventsStage, Report: applied}
		m.options.Observe(e, applied.Kind+": "+counts([]count{{changed, "license", "changed"}}))
	}
}

// follow makes the simulated Marketplace know what the events say of a license, so that its last hour ends there when it ends here. It
// does so for repeats too: one that failed half way is sent again.
func (m *Machine) follow(ctx context.Context, applied lifecycle.Applied) error {
	if m.sim == nil {
		return nil
	}
	for _, c := range applied.Licenses {
		s, err := m.store.Subscriber(ctx, c.License, c.Account)
		if err != nil {
			return fmt.Errorf("read the subscriber: %w", err)
		}
		if s == nil || metering.LegacyLicense(c.License) {
			continue
		}
		if err := m.sim.PutLicense(soldAs(*s)); err != nil {
			return fmt.Errorf("close or open the license at the simulated Marketplace: %w", err)
		}
	}
	return nil
}

// soldAs is a subscriber's license as the Marketplace knows it.
func soldAs(s metering.Subscriber) simulator.License {
	l := simulator.License{ARN: s.License, AccountID: s.Account, ProductCode: s.ProductCode}
	if s.Status == metering.LifecycleDeprovisioning || s.Status == metering.LifecycleInactive {
		l.DeprovisionedAt = s.StatusAt
	}
	if s.AgreementStatus == metering.LifecycleInactive {
		l.EndedAt = s.AgreementStatusAt
	}
	return l
}
