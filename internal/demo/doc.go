// Package demo plays a file of usage over virtual time: the real stages over a store in memory, the real SDK client against the
// simulated Marketplace, and a clock that jumps from one instant at which something happens to the next. It tells what happens
// and leaves tables and the Marketplace's own ledger behind.
package demo
