package sqlite

import (
	"context"
	"database/sql/driver"
	"iter"

	"github.com/awsmp/metering/internal/metering"
)

// licensesAPage is how many licenses one step of Licenses reads.
const licensesAPage = 1000

// Licenses are the licenses that either usage table holds items of, in order.
func (s *Store) Licenses(ctx context.Context) iter.Seq2[string, error] {
	return pages(ctx, s, func(d *decoder, p *page[string], after place) error {
		return d.query(`SELECT DISTINCT license FROM series s WHERE license > ? AND
			(EXISTS (SELECT 1 FROM usage_row WHERE series = s.id) OR EXISTS (SELECT 1 FROM usage_record WHERE series = s.id))
			ORDER BY license LIMIT ?`, []any{after.prefix, int64(licensesAPage)},
			func(v []driver.Value) (bool, error) {
				license := text(v[0])
				p.add(license, place{prefix: license}, len(license))
				p.full = len(p.items) >= licensesAPage
				return true, nil
			})
	})
}

// LicenseRows are all rows of a license, series after series, in the order of their keys.
func (s *Store) LicenseRows(ctx context.Context, license string) iter.Seq2[metering.Row, error] {
	return whole(ctx, s, license, "SELECT "+rowColumns+" FROM usage_row WHERE series = ? AND tail > ? ORDER BY tail", (*decoder).rowOf, rowBytes)
}

// LicenseRecords are all records of a license with every attribute, series after series, in the order of their keys.
func (s *Store) LicenseRecords(ctx context.Context, license string) iter.Seq2[metering.Record, error] {
	return whole(ctx, s, license, "SELECT "+recordColumns+" FROM usage_record WHERE series = ? AND tail > ? ORDER BY tail", (*decoder).recordOf, recordBytes)
}

// whole reads everything that a table holds of a license. More are values of the query after the series and the tail.
func whole[T any](ctx context.Context, s *Store, license, query string, decode func(*decoder, *series, []driver.Value) (T, error), size func([]driver.Value) int, more ...any) iter.Seq2[T, error] {
	return pages(ctx, s, func(d *decoder, p *page[T], after place) error {
		return eachSeries(d, license, after, func(in *series, tail any) (bool, error) {
			err := d.query(query, append([]any{in.id, tail}, more...), func(v []driver.Value) (bool, error) {
				item, err := decode(d, in, v)
				return p.add(item, place{series: in.id, prefix: in.prefix, tail: v[1]}, size(v)), err
			})
			return !p.full, err
		})
	})
}
