package sqlite_test

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/awsmp/metering/internal/metering"
	"github.com/awsmp/metering/internal/store/sqlite"
)

// licenseOf is the ARN of a buyer's license, length characters long.
func licenseOf(buyer, length int) string {
	head := fmt.Sprintf("arn:aws:license-manager::111122223333:license:l-%04d", buyer)
	return head + strings.Repeat("a", length-len(head))
}

// sized are n rows of a buyer with an ARN of the length given, one a minute from the hour on.
func sized(buyer, length, n int) []metering.Row {
	g := group(licenseOf(buyer, length), "api_calls")
	all := make([]metering.Row, n)
	for i := range all {
		g.Hour = hour() + metering.Hour(i/60)
		all[i] = row(g, i%60*60, int64(i))
	}
	return all
}

// A license stands once in the file, so its length matters as little as that of one line among thousands.
func TestSizeDoesNotDependOnTheLengthOfNames(t *testing.T) {
	t.Parallel()
	const buyers, each = 1, 6000
	sizes := make(map[int]int64)
	for _, length := range []int{60, 1000} {
		path := file(t)
		s, err := sqlite.Open(t.Context(), path, sqlite.Options{}.Unsynced())
		check(t, "Open", err)
		for b := range buyers {
			put(t, s, sized(b, length, each)...)
		}
		shut(t, s)
		info, err := os.Stat(path)
		check(t, "Stat", err)
		sizes[length] = info.Size()
	}
	if ratio := float64(sizes[1000]) / float64(sizes[60]); ratio > 1.03 {
		t.Errorf("the file is %.3f times as large with long names: %v bytes", ratio, sizes)
	}
	if row := sizes[60] / (buyers * each); row > 60 {
		t.Errorf("a row takes %d bytes, want at most 60: some 70 rows a page", row)
	}
}
