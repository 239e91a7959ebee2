// Package usage writes usage for AWS Marketplace metering so that every unit counts once: through replies that are lost, crashes,
// and any number of processes that write the same rows.
//
// A [Writer] folds events into rows, by default one row a minute for each license, account and dimension, and adds each row's
// sum to the usage table in one conditional write under a token. A write whose answer is lost is sent again under the same token,
// so it counts once. Events go in one by one with [Writer.Add] and are written in the background, or as a list under an id of the
// caller's own with [Writer.WriteBatch], which may be sent again after a crash.
//
// For every row the caller hears exactly one of these:
//
//   - nil: written.
//   - [ErrHourCommitted]: the hour was metered before anything was sent. Nothing was written: book it in the current hour,
//     once. Where that is refused too, the license is at its end.
//   - [ErrLate]: written, but after its hour was metered. The row names what is late: do not book it again.
//   - [ErrUnknown]: sent, and no answer came. Send it again, under the same token.
//   - a [*Refusal]: it can never be billed as it is. Nothing was written.
//
// A row that was written while its hour was just being metered can still turn out late. Then the row is labelled so, and the
// ledger names it.
//
// # The row of an event
//
// The fold cuts each UTC hour into stretches. An event goes into the row of its stretch, and the row stands at the stretch's last
// second: with a fold of a minute, everything from 14:05:00 up to 14:06:00 is one row at 14:05:59. The last second, because a
// buyer's first hour is sent with the time of its first row, which must not lie before the license was activated; a fixed
// second, so that all processes add to one row. An event at 13:59:59.9 belongs to hour 13.
//
// A row lies ahead of the clock by less than the fold. The pipeline tolerates five minutes, so events may come from clocks that
// run ahead by five minutes less the fold.
package usage
