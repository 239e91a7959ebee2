//go:build !race

package demo_test

const files = "25"
