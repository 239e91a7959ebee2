//go:build !race

package tablecopy_test

const fewGroups, manyGroups = 100, 1000
