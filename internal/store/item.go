package store

import (
	"errors"
	"fmt"

	"github.com/awsmp/metering/internal/metering"
)

var (
	errNoKey     = errors.New("an item needs a licenseArn and a sort key")
	errNoAccount = errors.New("an item needs a licenseArn and a customerAWSAccountId")
)

// NormalRow is the row as it reads back: an attribute that stands in both forms is stored once.
func NormalRow(r metering.Row) metering.Row {
	if r.Other == nil {
		return r
	}
	return metering.RowFromItem(r.Item())
}

// NormalRecord is the record as it reads back.
func NormalRecord(r metering.Record) metering.Record {
	if r.Other == nil {
		return r
	}
	return metering.RecordFromItem(r.Item())
}

// CheckRow refuses a row that no table can hold: one without a key, or with metering.ErrTooLarge one of more than 400 KB.
func CheckRow(r *metering.Row) error {
	switch {
	case r.License == "" || r.SortKey == "":
		return fmt.Errorf("put row: %w", errNoKey)
	case RowSize(r) > MaxItemBytes:
		return fmt.Errorf("put row %.80s: %w", r.SortKey, metering.ErrTooLarge)
	}
	return nil
}

// CheckRecord refuses a record that no table can hold: one without a key, or with metering.ErrTooLarge one of more than 400 KB.
func CheckRecord(r *metering.Record) error {
	switch {
	case r.License == "" || r.SortKey == "":
		return fmt.Errorf("put record: %w", errNoKey)
	case RecordSize(r) > MaxItemBytes:
		return fmt.Errorf("put record %.80s: %w", r.SortKey, metering.ErrTooLarge)
	}
	return nil
}

// NormalSubscriber is the subscriber as it reads back.
func NormalSubscriber(s metering.Subscriber) metering.Subscriber {
	if s.Other == nil {
		return s
	}
	return metering.SubscriberFromItem(s.Item())
}

// CheckSubscriber refuses a subscriber without a key.
func CheckSubscriber(license, account string) error {
	if license == "" || account == "" {
		return fmt.Errorf("change subscriber: %w", errNoAccount)
	}
	return nil
}

// RowSize is a row's size in bytes: exact, but for plain rows, which are a few hundred bytes, an upper bound.
func RowSize(r *metering.Row) int {
	if r.Other != nil || r.Allocations != nil || len(r.Flushes) > 1 {
		return ItemSize(r.Item())
	}
	const names = 280 // all attribute names, three numbers and a list of one
	size := names + len(r.License) + len(r.SortKey) + len(r.Account) + len(r.Dimension) + len(r.Timestamp) +
		len(r.CustomerIdentifier) + len(r.Pending) + len(r.Status) + len(r.StatusReason) + len(r.CreatedAt) + len(r.UpdatedAt)
	for _, token := range r.Flushes {
		size += len(token)
	}
	return size
}

// RecordSize is a record's size in bytes.
func RecordSize(r *metering.Record) int { return ItemSize(r.Item()) }
