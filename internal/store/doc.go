// Package store holds what every adapter of the tables shares: the pager, the size of an item and what the pending
// index of the aggregated-usage table carries. The adapters live in the packages below it, and storetest is the one
// contract that they all pass.
package store
