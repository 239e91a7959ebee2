//go:build !race

package node_test

const defaultSeeds = 300
