package main

import (
	"fmt"
	"io"
	"os"
	"time"

	"github.com/schollz/progressbar/v3"

	"github.com/awsmp/metering/internal/ledger"
)

// importBar shows on a terminal how far an import is; elsewhere it shows nothing.
type importBar struct {
	out          io.Writer // nil where nothing is shown
	bar          *progressbar.ProgressBar
	begun, shown time.Time
}

func newImportBar(errs io.Writer, quiet bool) *importBar {
	file, ok := errs.(*os.File)
	if !ok || quiet {
		return &importBar{}
	}
	if info, err := file.Stat(); err != nil || info.Mode()&os.ModeCharDevice == 0 {
		return &importBar{}
	}
	return &importBar{out: errs}
}

// read shows how far the first pass is; size is 0 where it is not known.
func (b *importBar) read(done, size int64) {
	if b.out == nil {
		return
	}
	if b.bar == nil {
		if size == 0 {
			size = -1
		}
		b.begin(size, "reading")
	}
	if _, due := b.due(); due {
		_ = b.bar.Set64(done)
	}
}

// importing begins the second pass.
func (b *importBar) importing(size int64) {
	if b.out != nil {
		b.clear()
		b.begin(size, "importing")
	}
}

// imported shows how far the second pass is.
func (b *importBar) imported(bytes int64, lines int) {
	if b.out == nil {
		return
	}
	now, due := b.due()
	if !due {
		return
	}
	_ = b.bar.Set64(bytes)
	if spent := now.Sub(b.begun); spent > time.Second { // before that a speed is chance
		b.bar.Describe(fmt.Sprintf("importing, %s lines/s", ledger.Thousands(int64(float64(lines)/spent.Seconds()))))
	}
}

// barPace is how often the bar is drawn anew.
const barPace = 100 * time.Millisecond

// due reports whether it is time to draw the bar anew.
func (b *importBar) due() (now time.Time, due bool) {
	if now = time.Now(); now.Sub(b.shown) < barPace {
		return now, false
	}
	b.shown = now
	return now, true
}

// clear takes the bar away, so that what is written next stands on a line of its own.
func (b *importBar) clear() {
	if b.bar != nil {
		_ = b.bar.Clear()
		b.bar = nil
	}
}

func (b *importBar) begin(size int64, what string) {
	b.begun, b.shown = time.Now(), time.Time{}
	b.bar = progressbar.NewOptions64(size, progressbar.OptionSetWriter(b.out), progressbar.OptionSetDescription(what),
		progressbar.OptionClearOnFinish(), progressbar.OptionSetWidth(30), progressbar.OptionUseANSICodes(true))
}
