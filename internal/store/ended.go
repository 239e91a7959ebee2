package store

import (
	"iter"
	"strings"

	"github.com/awsmp/metering/internal/metering"
)

// RowEnded is the question whether a row has ended with a status. One that waits has not, whatever it bore before.
func RowEnded(status metering.Status) func(metering.Row) bool {
	return func(r metering.Row) bool { return r.Pending == "" && r.Status == status }
}

// RecordEnded is the question whether a record has ended with a status, likewise.
func RecordEnded(status metering.Status) func(metering.Record) bool {
	return func(r metering.Record) bool { return r.Pending == "" && r.Status == status }
}

// Where yields those items that a question is answered with yes of. An error is yielded as it comes.
func Where[T any](items iter.Seq2[T, error], is func(T) bool) iter.Seq2[T, error] {
	return func(yield func(T, error) bool) {
		for item, err := range items {
			if (err != nil || is(item)) && !yield(item, err) {
				return
			}
		}
	}
}

// OfEach yields what is read of each license in turn. An error ends it.
func OfEach[T any](licenses iter.Seq2[string, error], read func(license string) iter.Seq2[T, error]) iter.Seq2[T, error] {
	return func(yield func(T, error) bool) {
		for license, err := range licenses {
			if err != nil {
				var none T
				yield(none, err)
				return
			}
			for item, err := range read(license) {
				if !yield(item, err) || err != nil {
					return
				}
			}
		}
	}
}

// Accounts are the accounts that the sort keys of a license begin with, in order. Next is the first sort key at from or after it, and whether
// there is one; it is asked once for each account, and not for each item: what follows an account's keys begins after "account#", and
// '$' follows '#'. A key that names no account is passed over.
func Accounts(next func(from string) (key string, found bool, err error)) ([]string, error) {
	var accounts []string
	for from := ""; ; {
		key, found, err := next(from)
		if err != nil || !found {
			return accounts, err
		}
		account, _, ok := strings.Cut(key, "#")
		if !ok {
			from = key + "\x00" // the text that follows it
			continue
		}
		if account != "" {
			accounts = append(accounts, account)
		}
		from = account + "$"
	}
}
