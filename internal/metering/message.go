package metering

import (
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"strings"
)

// Limits of the messages that go into a queue at once (Amazon SQS API reference, SendMessageBatch; developer guide, message quotas).
const (
	MaxBatch = 10
	// MaxBatchBytes bounds each body, and all bodies of a batch together.
	MaxBatchBytes = 1 << 20
)

// MaxCleanupRows is how many rows one cleanup message labels.
const MaxCleanupRows = 100

// WorkMessage asks for one visit of one group.
type WorkMessage struct {
	License   string `json:"licenseArn"`
	Account   string `json:"customerAWSAccountId"`
	Dimension string `json:"dimension"`
	Hour      string `json:"hourBucket"`
	// Closing says that the license's window is about to close: a quantity of 0 waits no longer.
	Closing bool `json:"closing,omitempty"`
}

// NewWorkMessage asks for a visit of g.
func NewWorkMessage(g Group, closing bool) WorkMessage {
	return WorkMessage{License: g.License, Account: g.Account, Dimension: g.Dimension, Hour: g.Hour.String(), Closing: closing}
}

// Group is the group to visit.
func (m WorkMessage) Group() (Group, error) {
	h, err := ParseHour(m.Hour)
	if err != nil {
		return Group{}, fmt.Errorf("read work message: %w", err)
	}
	if m.License == "" {
		return Group{}, errors.New("read work message: no licenseArn")
	}
	return Group{License: m.License, Account: m.Account, Dimension: m.Dimension, Hour: h}, nil
}

// CleanupMessage asks for labels on up to MaxCleanupRows rows of one license.
type CleanupMessage struct {
	License string `json:"licenseArn"`
	// Covered rows end by the rule of coverage against the quantity that they were committed with; other rows get the
	// status while they are as they were judged.
	Covered bool   `json:"covered,omitempty"`
	Status  Status `json:"meteringStatus"`
	Reason  string `json:"meteringStatusReason,omitempty"`
	// First marks the first message of a group, so that what is counted once a group is counted once.
	First bool         `json:"first,omitempty"`
	Rows  []CleanupRow `json:"rows"`
}

// CleanupRow is one row to label: its sort key, its quantity (as committed, or as read; absent where it is no number) and,
// unless it is covered, its fingerprint as judged. Late is what the row was already late with: those units are counted.
type CleanupRow struct {
	Key         string `json:"k"`
	Quantity    *int64 `json:"q,omitempty"`
	Fingerprint string `json:"f,omitempty"`
	Late        int64  `json:"l,omitempty"`
}

// NewCleanupRow is a row to label as it was judged.
func NewCleanupRow(r Row) CleanupRow {
	return CleanupRow{Key: r.SortKey, Quantity: r.Quantity.pointer(), Fingerprint: r.Fingerprint(), Late: max(0, r.LateQuantity.N)}
}

// CoveredRow is a row to label by coverage.
func CoveredRow(g Group, s Second, committed int64) CleanupRow {
	return CleanupRow{Key: g.RowKey(s), Quantity: &committed}
}

// Units is the row's quantity, 0 where it is unknown or negative.
func (r CleanupRow) Units() int64 {
	if r.Quantity == nil {
		return 0
	}
	return max(0, *r.Quantity)
}

// Split cuts a label for many rows into messages.
func (m CleanupMessage) Split(rows []CleanupRow) iter.Seq[CleanupMessage] {
	return func(yield func(CleanupMessage) bool) {
		for i := 0; i < len(rows); i += MaxCleanupRows {
			part := m
			part.First = i == 0
			part.Rows = rows[i:min(i+MaxCleanupRows, len(rows))]
			if !yield(part) {
				return
			}
		}
	}
}

// Encode writes a message body.
func Encode[M WorkMessage | CleanupMessage](m M) string {
	body, err := json.Marshal(m)
	if err != nil { // unreachable: the bodies hold text, numbers and booleans only
		panic(err)
	}
	return carried.Replace(string(body))
}

// carried writes the two characters that JSON allows and SQS does not carry by their numbers (Amazon SQS API reference,
// SendMessage): a group whose dimension holds one is visited like any other.
var carried = strings.NewReplacer("\uFFFE", `\ufffe`, "\uFFFF", `\uffff`)

// Decode reads a message body. Fields of a newer release are passed over.
func Decode[M WorkMessage | CleanupMessage](body string) (M, error) {
	var m M
	if err := json.Unmarshal([]byte(body), &m); err != nil {
		return m, fmt.Errorf("read message: %w", err)
	}
	return m, nil
}
