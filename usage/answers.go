package usage

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/awsmp/metering/internal/metering"
)

// What a caller hears of a row that was not simply written. Test for them with errors.Is.
var (
	// ErrHourCommitted means that the row's hour had its record before anything of the row was sent. Nothing was written.
	// Book the quantity in the current hour, if at all. In the last minutes of a license, that hour can be committed too; then the
	// quantity can no longer be billed.
	ErrHourCommitted = errors.New("its hour has been metered already and nothing was written; book it in the current hour; " + metering.CommittedForGood)
	// ErrLate means that the row was written, and that all or part of what it holds came after its hour was metered. The row and
	// the ledger name the quantity that is late: do not book it again.
	ErrLate = errors.New("written, but late: its hour had been metered meanwhile; the ledger names what is late, do not book it again")
	// ErrUnknown means that no answer came. From Flush it is for the time being, and the writer goes on trying. From Close it
	// is final: send the row again with Resend. From WriteBatch: send the same batch again.
	ErrUnknown = errors.New("it is unknown whether it was written; send it again under the same token")
	// ErrClosed means that the writer was closed before, and takes nothing any more.
	ErrClosed = errors.New("the writer is closed")
)

// Row is what was, or was to be, added to one usage row.
type Row struct {
	License            string       `json:"licenseArn"`
	Account            string       `json:"customerAWSAccountId"`
	Dimension          string       `json:"dimension"`
	Time               time.Time    `json:"timestamp"` // of the row, UTC
	Quantity           int64        `json:"quantity"`  // that is added, not what the row holds in all
	Allocations        []Allocation `json:"allocations,omitempty"`
	CustomerIdentifier string       `json:"customerIdentifier,omitempty"`
	Token              string       `json:"token"` // under which it counts once; empty where it has none yet
	Sent               bool         `json:"sent"`  // whether it may have reached the table; if not, nothing was written
}

// Outcome is what became of a row: Err is nil where it was written, else as in RowError.
type Outcome struct {
	Row
	Err error
}

// RowError is a row that was not simply written, and why: ErrHourCommitted, ErrLate, ErrUnknown or a *Refusal. As JSON it can be
// kept and given to Writer.Resend later.
type RowError struct {
	Row
	Err error `json:"-"`
}

// unsent is what there is to say of a row without an answer that was never sent.
const unsent = "it was not sent yet, so nothing was written; after Close give it to Resend"

// Error names the row and what became of it; accounts are masked.
func (e *RowError) Error() string {
	what := fmt.Sprint(e.Err)
	if rest, unknown := strings.CutPrefix(what, ErrUnknown.Error()); unknown && !e.Sent {
		what = unsent + rest
	}
	return fmt.Sprintf("row %s of %s, account %s, quantity %d: %s",
		e.Time.UTC().Format("2006-01-02T15:04:05"), e.Dimension, metering.Masked(e.Account), e.Quantity, what)
}

// Unwrap is the reason.
func (e *RowError) Unwrap() error { return e.Err }

// RowErrors are all rows of a Flush, Close or WriteBatch that have something to be said of. Take them out of an error with
// errors.As.
type RowErrors []*RowError

// Error names the first few.
func (e RowErrors) Error() string {
	const shown = 3
	var b strings.Builder
	fmt.Fprintf(&b, "%d rows were not simply written", len(e))
	for i, row := range e[:min(shown, len(e))] {
		sep := "; "
		if i == 0 {
			sep = ": "
		}
		b.WriteString(sep + row.Error())
	}
	if more := len(e) - shown; more > 0 {
		fmt.Fprintf(&b, "; and %d more", more)
	}
	return b.String()
}

// Unwrap makes errors.Is and errors.As look into every row.
func (e RowErrors) Unwrap() []error {
	out := make([]error, len(e))
	for i, row := range e {
		out[i] = row
	}
	return out
}

// orNil is the list as an error, nil where it is empty.
func (e RowErrors) orNil() error {
	if len(e) == 0 {
		return nil
	}
	return e
}

func (p *part) named() Row {
	f := p.flush
	return Row{
		License: f.Group.License, Account: f.Group.Account, Dimension: f.Group.Dimension, Time: f.Second.Time(),
		Quantity: f.Quantity, Allocations: fromMetering(f.Allocations), CustomerIdentifier: f.CustomerIdentifier,
		Token: f.Token, Sent: p.sent,
	}
}

// failure is the part as an error; it has an answer, and that is not nil.
func (p *part) failure() *RowError { return &RowError{Row: p.named(), Err: p.err} }

// unknown is a part without an answer, and the latest cause.
func (p *part) unknown() *RowError {
	err := ErrUnknown
	if p.cause != nil {
		err = fmt.Errorf("%w (%w)", ErrUnknown, p.cause)
	}
	return &RowError{Row: p.named(), Err: err}
}
