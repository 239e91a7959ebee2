//go:build !race

package usage_test

const parts = 5 // of a hundred days each
