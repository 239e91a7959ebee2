// Package metering is the vocabulary of the pipeline and the one place where its rules live: hours,
// windows, locks, month end, keys, reasons, statuses, the fold, the manifest, the rule of coverage,
// message bodies and the packing of calls.
//
// Everything here is pure: no AWS, no clock, no I/O, no context. The time is always an argument, always
// UTC. Stages ask this package and keep no second copy of a rule.
package metering
