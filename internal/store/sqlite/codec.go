package sqlite

import (
	"bytes"
	"database/sql/driver"
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"github.com/awsmp/metering/internal/metering"
)

// text is a column that holds text, empty for NULL.
func text(v driver.Value) string {
	s, _ := v.(string)
	return s
}

func orNull(s string) any {
	if s == "" {
		return nil
	}
	return s
}

// A tail is a time as a number where it has the usual form, and otherwise the text as it was written. The same goes for buckets and
// audit times.

func secondValue(s string) any {
	if n, err := metering.ParseSecond(s); err == nil {
		return int64(n)
	}
	return s
}

func hourValue(s string) any {
	if h, err := metering.ParseHour(s); err == nil {
		return int64(h)
	}
	return s
}

func secondText(v driver.Value) string {
	if n, ok := v.(int64); ok {
		return metering.Second(n).String()
	}
	return text(v)
}

func hourText(v driver.Value) string {
	if n, ok := v.(int64); ok {
		return metering.Hour(n).String()
	}
	return text(v)
}

func bucketValue(s string) any {
	if s == "" {
		return nil
	}
	return hourValue(s)
}

func auditValue(s string) any {
	if s == "" {
		return nil
	}
	if t, err := time.Parse(time.RFC3339, s); err == nil && t.UTC().Format(time.RFC3339) == s {
		return t.Unix()
	}
	return s
}

// auditText reads an audit time; most rows of a read carry the same.
func (d *decoder) auditText(v driver.Value) string {
	n, ok := v.(int64)
	if !ok {
		return text(v)
	}
	if d.audit == "" || n != d.auditAt {
		d.audit, d.auditAt = time.Unix(n, 0).UTC().Format(time.RFC3339), n
	}
	return d.audit
}

func quantityValue(q metering.Quantity) any {
	if !q.Whole {
		return nil
	}
	return q.N
}

func quantityOf(v driver.Value) metering.Quantity {
	n, ok := v.(int64)
	return metering.Quantity{N: n, Whole: ok}
}

// jsonText writes a value as it is read back: numbers as they were written, no escapes that only HTML needs.
func jsonText(v any) (string, error) {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(v); err != nil {
		return "", fmt.Errorf("write an attribute: %w", err)
	}
	return string(bytes.TrimSuffix(b.Bytes(), []byte("\n"))), nil
}

func fromJSON(s string, into any) error {
	d := json.NewDecoder(bytes.NewReader([]byte(s)))
	d.UseNumber()
	if err := d.Decode(into); err != nil {
		return fmt.Errorf("read an attribute: %w", err)
	}
	return nil
}

// allocationsText is the list of allocations as the column holds it, in the form that the table has on AWS.
func allocationsText(list []metering.Allocation) (any, error) {
	if list == nil {
		return nil, nil
	}
	return jsonText(metering.Row{Allocations: list}.Item()[metering.AttrAllocations])
}

func allocationsOf(v driver.Value) ([]metering.Allocation, error) {
	s := text(v)
	if s == "" {
		return nil, nil
	}
	var list []any
	if err := fromJSON(s, &list); err != nil {
		return nil, err
	}
	return metering.RowFromItem(metering.Item{metering.AttrAllocations: list}).Allocations, nil
}

// flushesText joins tokens with spaces, as the writer's hold none; a list in which one does is written in JSON.
func flushesText(tokens []string) (any, error) {
	if len(tokens) == 0 {
		return nil, nil
	}
	for _, token := range tokens {
		if token == "" || token[0] == '[' || strings.IndexByte(token, ' ') >= 0 {
			return jsonText(tokens)
		}
	}
	return strings.Join(tokens, " "), nil
}

func flushesOf(v driver.Value) (tokens []string, err error) {
	s := text(v)
	switch {
	case s == "":
		return nil, nil
	case s[0] == '[':
		err = fromJSON(s, &tokens)
		return tokens, err
	}
	return strings.Split(s, " "), nil
}

// decoder makes items of columns. It is used by one read.
type decoder struct {
	*conn
	names *names
	fresh map[int64]label // that the transaction has made

	audit   string
	auditAt int64
}

// label is the status and reason that a column's number stands for.
func (d *decoder) label(v driver.Value) (metering.Status, string, error) {
	id, ok := v.(int64)
	if !ok {
		return "", "", nil
	}
	if l, ok := d.fresh[id]; ok {
		return l.status, l.reason, nil
	}
	l, err := d.names.label(d.conn, id)
	return l.status, l.reason, err
}

// rowColumns are the columns of usage_row as decoder.rowOf and rowValues have them.
const rowColumns = "series, tail, quantity, pending, odd, label, late, created, updated, flushes, customer, allocations, rest"

// rowBytes is how much a row takes in memory, about.
func rowBytes(v []driver.Value) int {
	return 300 + len(text(v[9])) + len(text(v[11])) + len(text(v[12]))
}

func (d *decoder) rowOf(s *series, v []driver.Value) (r metering.Row, err error) {
	tail := secondText(v[1])
	r = metering.Row{Account: s.account, Dimension: s.dimension, Timestamp: tail}
	if rest := text(v[12]); rest != "" {
		var item metering.Item
		if err := fromJSON(rest, &item); err != nil {
			return metering.Row{}, err
		}
		r = metering.RowFromItem(item)
	}
	r.License, r.SortKey = s.license, s.prefix+tail
	r.Quantity, r.Pending = quantityOf(v[2]), hourText(v[3])
	if r.Status, r.StatusReason, err = d.label(v[5]); err != nil {
		return metering.Row{}, err
	}
	r.LateQuantity = quantityOf(v[6])
	r.CreatedAt, r.UpdatedAt = d.auditText(v[7]), d.auditText(v[8])
	if r.Flushes, err = flushesOf(v[9]); err != nil {
		return metering.Row{}, err
	}
	r.CustomerIdentifier = text(v[10])
	r.Allocations, err = allocationsOf(v[11])
	return r, err
}

// rowValues are a row's columns, given its series.
func (s *session) rowValues(in *series, tail any, r metering.Row) (values [13]any, err error) {
	values = [13]any{in.id, tail, quantityValue(r.Quantity), bucketValue(r.Pending), nil, nil, quantityValue(r.LateQuantity), auditValue(r.CreatedAt), auditValue(r.UpdatedAt)}
	if values[5], err = s.labelID(r.Status, r.StatusReason); err != nil {
		return values, err
	}
	if values[9], err = flushesText(r.Flushes); err != nil {
		return values, err
	}
	values[10] = orNull(r.CustomerIdentifier)
	if values[11], err = allocationsText(r.Allocations); err != nil {
		return values, err
	}
	second, usual := tail.(int64)
	if usual && r.Other == nil && !r.Dropped && r.Account == in.account && r.Dimension == in.dimension && r.Timestamp == metering.Second(second).String() {
		return values, nil
	}
	bare := metering.Row{Account: r.Account, Dimension: r.Dimension, Timestamp: r.Timestamp, Dropped: r.Dropped, Other: r.Other}
	values[4] = int64(1)
	values[12], err = jsonText(bare.Item())
	return values, err
}

// recordColumns are the columns of usage_record as decoder.recordOf and recordValues have them; the manifest is the last.
const (
	entryColumns  = "series, tail, quantity, pending, label, sent, sent_second, record_id, billed, ttl, created, updated, customer, allocations, rest"
	recordColumns = entryColumns + ", manifest"
)

func recordBytes(v []driver.Value) int {
	n := 400 + len(text(v[13])) + len(text(v[14]))
	if len(v) > 15 {
		n += len(text(v[15]))
	}
	return n
}

func (d *decoder) recordOf(s *series, v []driver.Value) (r metering.Record, err error) {
	tail := hourText(v[1])
	r = metering.Record{Account: s.account, Dimension: s.dimension, HourBucket: tail}
	if rest := text(v[14]); rest != "" {
		var item metering.Item
		if err := fromJSON(rest, &item); err != nil {
			return metering.Record{}, err
		}
		r = metering.RecordFromItem(item)
	}
	r.License, r.SortKey = s.license, s.prefix+tail
	r.Quantity, r.Pending = quantityOf(v[2]), hourText(v[3])
	if r.Status, r.StatusReason, err = d.label(v[4]); err != nil {
		return metering.Record{}, err
	}
	r.SentQuantity, r.SentSecond, r.MeteringRecordID = quantityOf(v[5]), text(v[6]), text(v[7])
	r.BilledQuantity, r.TTL = quantityOf(v[8]), quantityOf(v[9])
	r.CreatedAt, r.UpdatedAt, r.CustomerIdentifier = d.auditText(v[10]), d.auditText(v[11]), text(v[12])
	if len(v) > 15 {
		r.Manifest = text(v[15])
	}
	r.Allocations, err = allocationsOf(v[13])
	return r, err
}

// recordValues are a record's columns, given its series.
func (s *session) recordValues(in *series, tail any, r metering.Record) (values [16]any, err error) {
	values = [16]any{
		in.id, tail, quantityValue(r.Quantity), bucketValue(r.Pending), nil, quantityValue(r.SentQuantity), orNull(r.SentSecond), orNull(r.MeteringRecordID),
		quantityValue(r.BilledQuantity), quantityValue(r.TTL), auditValue(r.CreatedAt), auditValue(r.UpdatedAt), orNull(r.CustomerIdentifier), nil, nil, orNull(r.Manifest),
	}
	if values[4], err = s.labelID(r.Status, r.StatusReason); err != nil {
		return values, err
	}
	if values[13], err = allocationsText(r.Allocations); err != nil {
		return values, err
	}
	hour, usual := tail.(int64)
	if usual && r.Other == nil && r.Account == in.account && r.Dimension == in.dimension && r.HourBucket == metering.Hour(hour).String() {
		return values, nil
	}
	bare := metering.Record{Account: r.Account, Dimension: r.Dimension, HourBucket: r.HourBucket, Other: r.Other}
	values[14], err = jsonText(bare.Item())
	return values, err
}
