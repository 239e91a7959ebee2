package tablecopy_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/awsmp/metering/internal/awsapi"
	"github.com/awsmp/metering/internal/store/dynamodb"
	"github.com/awsmp/metering/internal/tablecopy"
)

// A page that takes more read units than the pace gives in a second waits for all of them, in the time that they take.
func TestPace(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		rate  int
		pages []float64
		want  time.Duration
	}{
		{10, []float64{10}, 0},
		{10, []float64{35}, 2500 * time.Millisecond},
		{10, []float64{10, 10, 10.5}, 2100 * time.Millisecond},
		{0, []float64{dynamodb.DefaultScanUnits, dynamodb.DefaultScanUnits}, time.Second},
	} {
		synctest.Test(t, func(t *testing.T) {
			begun, pace := time.Now(), tablecopy.NewPace(test.rate)
			for _, units := range test.pages {
				check(t, tablecopy.Take(t.Context(), pace, units))
			}
			if spent := time.Since(begun).Round(time.Millisecond); spent != test.want {
				t.Errorf("%v at %d a second took %v, want %v", test.pages, test.rate, spent, test.want)
			}
		})
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := tablecopy.Take(ctx, tablecopy.NewPace(1), 100); !errors.Is(err, context.Canceled) {
		t.Errorf("interrupted: %v", err)
	}
}

// A read that is throttled is tried again for a while; one that is refused is not.
func TestPatience(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		for class, want := range map[awsapi.Class]int{awsapi.Throttled: 6, awsapi.Unavailable: 6, awsapi.Denied: 1, awsapi.Missing: 1} {
			tries := 0
			begun := time.Now()
			err := tablecopy.Patiently(t.Context(), func() error { tries++; return &awsapi.Error{Class: class, Err: errors.New("no")} })
			if awsapi.ClassOf(err) != class || tries != want {
				t.Errorf("%s: %d tries and %v", class, tries, err)
			}
			if spent := time.Since(begun); (spent > 0) != (want > 1) || spent > time.Minute {
				t.Errorf("%s: gave up after %v", class, spent)
			}
		}
		tries := 0
		check(t, tablecopy.Patiently(t.Context(), func() error {
			if tries++; tries < 4 {
				return &awsapi.Error{Class: awsapi.Throttled, Err: errors.New("slow down")}
			}
			return nil
		}))
	})
}
