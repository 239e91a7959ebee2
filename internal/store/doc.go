// Package store holds what every adapter of the tables shares: the pager, the size of an item, what the pending index of the
// aggregated-usage table carries, and a profile's form as an item. The adapters live in the packages below it, and storetest is the one
// contract that they all pass.
package store
