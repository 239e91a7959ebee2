package main

import (
	"fmt"
	"io"
	"os"
	"time"

	"github.com/schollz/progressbar/v3"
	"golang.org/x/term"

	"github.com/awsmp/metering/internal/ledger"
	"github.com/awsmp/metering/internal/store/dynamodb"
	"github.com/awsmp/metering/internal/tablecopy"
)

// ledgerBar shows how far a copy of tables is: on a terminal a bar, elsewhere a line now and then.
type ledgerBar struct {
	out          io.Writer
	terminal     bool
	bar          *progressbar.ProgressBar
	again        bool  // the bar is that of what is read again
	total, first int64 // items: as AWS counts them, and there at the beginning
	begun, shown time.Time
}

// linePace is how often a line is written where there is no terminal.
const linePace = 10 * time.Second

func newLedgerBar(errs io.Writer, surveys []dynamodb.Survey, done tablecopy.Progress) *ledgerBar {
	b := &ledgerBar{out: errs, begun: time.Now(), shown: time.Now(), first: done.Rows + done.Records}
	for _, s := range surveys {
		b.total += s.Items
	}
	if file, ok := errs.(*os.File); ok {
		b.terminal = term.IsTerminal(int(file.Fd()))
	}
	return b
}

// copied shows how far the copy is.
func (b *ledgerBar) copied(p tablecopy.Progress) {
	items, now := p.Rows+p.Records, time.Now()
	if b.terminal {
		if b.bar == nil {
			b.bar = progressbar.NewOptions64(max(b.total, items, 1), progressbar.OptionSetWriter(b.out), progressbar.OptionSetDescription("copying"),
				progressbar.OptionClearOnFinish(), progressbar.OptionSetWidth(30), progressbar.OptionUseANSICodes(true), progressbar.OptionThrottle(barPace),
				progressbar.OptionSetPredictTime(false))
		}
		if items >= b.bar.GetMax64() { // more than AWS has counted: a bar that is full would go away
			b.bar.ChangeMax64(items + 1)
		}
		b.bar.Describe("copying, " + b.words(p, now))
		_ = b.bar.Set64(items)
		return
	}
	if now.Sub(b.shown) >= linePace {
		b.shown = now
		fmt.Fprintf(b.out, "copying: %s of about %s items, %s\n", ledger.Thousands(items), ledger.Thousands(max(b.total, items)), b.words(p, now))
	}
}

// words are the units that were used and the time that is left.
func (b *ledgerBar) words(p tablecopy.Progress, now time.Time) string {
	s := ledger.Counted(int64(p.Units+0.5), "read unit")
	items := p.Rows + p.Records
	if spent := now.Sub(b.begun); spent > time.Second && items > b.first && items < b.total {
		left := time.Duration(float64(spent) / float64(items-b.first) * float64(b.total-items))
		s += fmt.Sprintf(", about %s left", left.Round(time.Second))
	}
	return s
}

// readAgain shows how many groups were read again.
func (b *ledgerBar) readAgain(groups int) {
	now := time.Now()
	switch {
	case b.terminal:
		if !b.again {
			b.clear()
			b.again = true
			b.bar = progressbar.NewOptions64(-1, progressbar.OptionSetWriter(b.out), progressbar.OptionClearOnFinish(), progressbar.OptionUseANSICodes(true),
				progressbar.OptionThrottle(barPace))
		}
		b.bar.Describe(fmt.Sprintf("reading again, %s so far", ledger.Counted(int64(groups), "group")))
		_ = b.bar.Add(1)
	case now.Sub(b.shown) >= linePace:
		b.shown = now
		fmt.Fprintf(b.out, "reading again what changed: %s so far\n", ledger.Counted(int64(groups), "group"))
	}
}

// clear takes the bar away, so that what is written next stands on a line of its own.
func (b *ledgerBar) clear() {
	if b.bar != nil {
		_ = b.bar.Clear()
		b.bar = nil
	}
}
