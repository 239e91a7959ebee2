package pipeline_test

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"strings"
	"testing"

	"github.com/awsmp/metering/internal/metering"
	"github.com/awsmp/metering/internal/pipeline"
)

// deafRecords can be read nowhere.
type deafRecords struct{ pipeline.Records }

func (deafRecords) PendingRecords(_ context.Context, h metering.Hour, _ string) iter.Seq2[metering.Record, error] {
	return func(yield func(metering.Record, error) bool) {
		yield(metering.Record{}, fmt.Errorf("%w: hour %v", errRefused, h))
	}
}

// An expiry that can read nothing says so in a few lines, not in one for each of the hours that it sweeps.
func TestExpiryTellsOfFewFailures(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	e := &pipeline.Expirer{Records: deafRecords{}, Metrics: b.metrics, Now: b.clock}
	_, err := e.Run(b.ctx)
	if lines := strings.Count(fmt.Sprint(err), "\n") + 1; !errors.Is(err, errRefused) || lines > 10 || !strings.Contains(err.Error(), "errors more") {
		t.Errorf("%d lines: %v", lines, err)
	}
}
