package usage

import (
	"errors"
	"fmt"
	"time"

	"github.com/awsmp/metering/internal/metering"
)

const (
	defaultFold       = time.Minute
	longestFold       = 5 * time.Minute // how far ahead of the clock the pipeline takes a row
	defaultFlushEvery = time.Minute
	// longestFlushEvery leaves a buffer time to be written: an hour is first metered five minutes after its end.
	longestFlushEvery = 4 * time.Minute
	defaultMaxRows    = 10_000
	defaultParallel   = 8
)

// Options are the settings of a Writer. The zero value is ready for use.
type Options struct {
	// Fold is how long a stretch of time becomes one row: 1 s to 5 min, whole seconds that divide the hour; 0 means one
	// minute. Finer rows cost more and bill the same. Every process, and every resend of a batch, uses the same fold.
	Fold time.Duration
	// FlushEvery is how long an added event may wait in memory: up to 4 min; 0 means one minute. A row is written once a
	// FlushEvery by each process and takes 100 writes in all, so it is longer than a hundredth of Fold.
	FlushEvery time.Duration
	// MaxRows is how many rows are held in memory, those whose answer is outstanding included; each allocation counts as one
	// more. 0 means 10,000. While so many are held, Add waits.
	MaxRows int
	// Parallel is how many groups (license, account, dimension and hour) are looked up at once; 0 means 8.
	Parallel int
	// Window is how long after its start an hour can be billed, as the pipeline is set: whole hours; 0 means 24.
	Window time.Duration
	// Now is the clock that events are judged by; nil means the table's, if it has a method Now, and else time.Now. Waiting takes
	// real time.
	Now func() time.Time
	// Outcome is told, once for each row that Add began, what became of it: by Flush, in the background, or as ErrUnknown by
	// Close. It is called from several goroutines, must be quick, and must not call the writer. Without it, rows that were not
	// written as asked are kept for the next Flush or Close, and Add refuses to go on once 1,000 of them are waiting there.
	Outcome func(Outcome)
}

func (o Options) withDefaults() Options {
	if o.Fold == 0 {
		o.Fold = defaultFold
	}
	if o.FlushEvery == 0 {
		o.FlushEvery = defaultFlushEvery
	}
	if o.MaxRows == 0 {
		o.MaxRows = defaultMaxRows
	}
	if o.Parallel == 0 {
		o.Parallel = defaultParallel
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	return o
}

func (o Options) check() error {
	switch {
	case o.Fold < time.Second || o.Fold > longestFold || o.Fold%time.Second != 0 || time.Hour%o.Fold != 0:
		return fmt.Errorf("check Fold: %v is not 1 s to 5 min in whole seconds that divide the hour\nTry: Fold: time.Minute", o.Fold)
	case o.FlushEvery < 0 || o.FlushEvery > longestFlushEvery:
		return fmt.Errorf("check FlushEvery: %v is not up to 4 min; an hour is metered from its fifth minute on, and what comes later is late\nTry: FlushEvery: time.Minute", o.FlushEvery)
	case o.Fold/o.FlushEvery >= metering.MaxFlushes:
		return fmt.Errorf("check FlushEvery: a row takes %d flushes, and %v long rows would get more, one every %v\nTry: FlushEvery: %v",
			metering.MaxFlushes, o.Fold, o.FlushEvery, o.Fold)
	case o.MaxRows < 0:
		return errors.New("check MaxRows: it is negative\nTry: MaxRows: 10_000")
	case o.Parallel < 0:
		return errors.New("check Parallel: it is negative\nTry: Parallel: 8")
	}
	return o.rules().Check()
}

func (o Options) rules() metering.Rules { return metering.Rules{Window: o.Window} }
