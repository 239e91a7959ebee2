package desk

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"github.com/awsmp/metering/internal/ledger"
	"github.com/awsmp/metering/internal/metering"
)

// LetterKind is what a dead letter is.
type LetterKind string

// The kinds.
const (
	LetterWork    LetterKind = "work"    // a group to be summed
	LetterCleanup LetterKind = "cleanup" // labels for rows
	LetterEvent   LetterKind = "event"   // what the Marketplace tells of a license or an agreement
	LetterUnread  LetterKind = "unread"  // none of these
)

// Reading is a dead letter as a person reads it.
type Reading struct {
	Letter
	Kind      LetterKind      `json:"kind"`
	License   string          `json:"licenseArn,omitempty"`
	Account   string          `json:"customerAWSAccountId,omitempty"`
	Dimension string          `json:"dimension,omitempty"`
	Hour      string          `json:"hourBucket,omitempty"` // YYYY-MM-DDTHH in UTC
	Status    metering.Status `json:"meteringStatus,omitempty"`
	Reason    string          `json:"meteringStatusReason,omitempty"`
	Rows      int             `json:"rows,omitempty"`  // to be labelled
	Units     int64           `json:"units,omitempty"` // in these
	Event     string          `json:"event,omitempty"` // the detail-type of an event
	At        string          `json:"at,omitempty"`    // when it happened, as it says
	Agreement string          `json:"agreementId,omitempty"`
	Problem   string          `json:"problem,omitempty"` // why it cannot be read
	Words     string          `json:"words"`             // all of it in a sentence
}

// Read tells what a letter is. Which queue it lies in does not matter: a letter that was put into a wrong one is read all the same.
func (l Letter) Read() Reading {
	r := Reading{Letter: l, Kind: LetterUnread}
	var shape struct {
		Rows   json.RawMessage `json:"rows"`
		Bucket *string         `json:"hourBucket"`
		Type   *string         `json:"detail-type"`
	}
	if err := json.Unmarshal([]byte(l.Body), &shape); err != nil {
		r.Problem, r.Words = "it is no JSON object", "cannot be read: it is no JSON object"
		return r
	}
	var err error
	switch {
	case shape.Type != nil:
		r.readEvent()
		return r
	case shape.Bucket != nil:
		err = r.readWork()
	case shape.Rows != nil:
		err = r.readCleanup()
	default:
		err = errors.New("it is neither a group to be summed, nor labels, nor an event")
	}
	if err != nil {
		r.Kind, r.Problem, r.Words = LetterUnread, err.Error(), "cannot be read: "+err.Error()
	}
	return r
}

func (r *Reading) readWork() error {
	m, err := metering.Decode[metering.WorkMessage](r.Body)
	if err != nil {
		return err
	}
	if _, err = m.Group(); err != nil {
		return err
	}
	r.Kind, r.License, r.Account, r.Dimension, r.Hour = LetterWork, m.License, m.Account, m.Dimension, m.Hour
	r.Words = "sum " + ledger.Shown(m.Dimension) + " of account " + ledger.Shown(m.Account) + " in hour " + m.Hour + ", license " + ledger.Short(m.License)
	if m.Closing {
		r.Words += ", which is in its last hour"
	}
	return nil
}

func (r *Reading) readCleanup() error {
	m, err := metering.Decode[metering.CleanupMessage](r.Body)
	if err != nil {
		return err
	}
	r.Kind, r.License, r.Status, r.Reason, r.Rows = LetterCleanup, m.License, m.Status, m.Reason, len(m.Rows)
	for _, row := range m.Rows {
		r.Units += row.Units()
	}
	r.Words = fmt.Sprintf("label %s, %s, as %s", ledger.Counted(int64(r.Rows), "row"), ledger.Counted(r.Units, "unit"), ledger.Shown(string(m.Status)))
	if m.Reason != "" && m.Status != metering.Aggregated {
		r.Words += " (" + ledger.Shown(m.Reason) + ")"
	}
	if len(m.Rows) > 0 {
		if key, reason := metering.ParseRowKey(m.Rows[0].Key); reason == "" {
			r.Account, r.Dimension, r.Hour = key.Account, key.Dimension, key.Second.Hour().String()
			r.Words += " in hour " + r.Hour + " of " + ledger.Shown(r.Dimension) + ", account " + ledger.Shown(r.Account)
		}
	}
	r.Words += ", license " + ledger.Short(m.License)
	return nil
}

// readEvent takes out of an event what names its subject. A member of another type than it should have is left out.
func (r *Reading) readEvent() {
	var e map[string]any
	_ = json.Unmarshal([]byte(r.Body), &e) // read once already
	at := func(path ...string) string {
		var v any = e
		for _, name := range path {
			m, _ := v.(map[string]any)
			v = m[name]
		}
		s, _ := v.(string)
		return s
	}
	r.Kind, r.Event, r.At, r.Account, r.Agreement = LetterEvent, at("detail-type"), at("time"), at("detail", "acceptor", "accountId"), at("detail", "agreement", "id")
	if r.License = at("detail", "license", "arn"); r.License == "" {
		r.License = at("detail", "license", "id")
	}
	said := []string{ledger.Shown(r.Event)}
	for _, part := range []struct{ name, value string }{{"at", r.At}, {"license", r.License}, {"account", r.Account}, {"agreement", r.Agreement}} {
		switch {
		case part.value == "":
		case part.name == "license":
			said = append(said, "license "+ledger.Short(part.value))
		case part.name == "at":
			said[0] += " at " + ledger.Shown(part.value)
		default:
			said = append(said, part.name+" "+ledger.Shown(part.value))
		}
	}
	r.Words = strings.Join(said, ", ")
}

// ErrNoPlant says that nothing runs at a place, so that it has no queues.
var ErrNoPlant = errors.New("nothing runs here, so there are no queues")

// UnknownQueueError is a name that no dead-letter queue has.
type UnknownQueueError struct {
	Name  string
	Known []string
}

func (e *UnknownQueueError) Error() string {
	return fmt.Sprintf("there is no dead-letter queue %q; there are %s", e.Name, strings.Join(e.Known, ", "))
}

// DeadQueues are the dead-letter queues.
func (d *Desk) DeadQueues(ctx context.Context) ([]Queue, error) {
	if d.Plant == nil {
		return nil, ErrNoPlant
	}
	all, err := d.Plant.Queues(ctx)
	if err != nil {
		return nil, fmt.Errorf("look at the queues: %w", err)
	}
	dead := []Queue{}
	for _, q := range all {
		if q.Dead {
			dead = append(dead, q)
		}
	}
	return dead, nil
}

// DeadQueue is a dead-letter queue by its name, with or without the awsmp-… before it, or by the name of the queue whose dead letters it holds.
func (d *Desk) DeadQueue(ctx context.Context, name string) (Queue, error) {
	dead, err := d.DeadQueues(ctx)
	if err != nil {
		return Queue{}, err
	}
	unknown := &UnknownQueueError{Name: name}
	for _, q := range dead {
		if q.Name == name || q.Name == name+"-dlq" || "awsmp-"+d.ProductCode+"-"+q.Name == name || "awsmp-"+q.Name == name {
			return q, nil
		}
		unknown.Known = append(unknown.Known, q.Name)
	}
	return Queue{}, unknown
}

// Letters are up to limit letters of a dead-letter queue, as a person reads them. They stay in it.
func (d *Desk) Letters(ctx context.Context, queue string, limit int) ([]Reading, error) {
	letters, err := d.Plant.Letters(ctx, queue, limit)
	if err != nil {
		return nil, fmt.Errorf("look into %s: %w", queue, err)
	}
	list := make([]Reading, len(letters))
	for i, l := range letters {
		list[i] = l.Read()
	}
	return list, nil
}

// Redriven is what became of a dead-letter queue.
type Redriven struct {
	Queue  string `json:"queue"`
	Moved  int    `json:"moved"`            // back to where they came from
	Stay   int    `json:"stay"`             // are still there: not moved, being looked at elsewhere, or come since
	Failed string `json:"failed,omitempty"` // why not all of them could be moved
}

// Redrive moves the letters of a dead-letter queue back to where they came from. What it has moved is told beside an error, and it may be
// run again: handling a message twice changes nothing. Where the queue cannot be counted afterwards, what stays is what was found less
// what was moved.
func (d *Desk) Redrive(ctx context.Context, q Queue, moved func(n int)) (Redriven, error) {
	done := Redriven{Queue: q.Name}
	n, err := d.Plant.Redrive(ctx, q.Name, moved)
	done.Moved, done.Stay = n, max(0, q.Visible+q.InFlight-n)
	if err != nil {
		err = fmt.Errorf("redrive %s: %w", q.Name, err)
		done.Failed = err.Error()
		return done, err
	}
	left, err := d.DeadQueue(ctx, q.Name)
	if err != nil {
		err = fmt.Errorf("count what stays in %s: %w", q.Name, err)
		done.Failed = err.Error()
		return done, err
	}
	done.Stay = left.Visible + left.InFlight
	return done, nil
}
