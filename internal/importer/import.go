package importer

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/awsmp/metering/internal/folder"
	"github.com/awsmp/metering/internal/usagefile"
	"github.com/awsmp/metering/usage"
)

// fold is the stretch of time whose usage becomes one row. It is no option: a file that is imported again with another one would be
// another import.
const fold = time.Minute

// Store is what an import needs of a store.
type Store interface {
	usage.Table
	folder.Settings
}

// Import is one run over one file.
type Import struct {
	Source *Source
	Store  Store
	Now    func() time.Time
	DryRun bool // everything but writing
	// Progress, where set, is told how far the file has been imported.
	Progress func(bytes int64, lines int)
	Limits   Limits // of a chunk; runs under other limits are other imports
}

// Stopped is an import that ended before its file did. What was written stays, and a run of the same command goes on from there.
type Stopped struct {
	Lines int // up to this line of the file, every line has its fate
	Err   error
}

func (s *Stopped) Error() string { return fmt.Sprintf("stopped after line %d: %v", s.Lines, s.Err) }

func (s *Stopped) Unwrap() error { return s.Err }

// ErrChanged is a file that is not what the first pass read.
var ErrChanged = errors.New("the file was changed while it was imported")

// Run imports the file. When the context is done it stops between two chunks. The outcome is never nil, and says in any case what became
// of the lines so far; the caller closes it. The error is a *usagefile.FileError or a *Stopped.
func (im Import) Run(ctx context.Context) (*Outcome, error) {
	r := &run{Import: im, out: newOutcome(im.Source)}
	err := r.begin(ctx)
	if err == nil {
		err = r.read(ctx)
	}
	var fault *usagefile.FileError
	if err != nil && !errors.As(err, &fault) {
		err = &Stopped{r.out.through, err}
	}
	return r.out, err
}

type run struct {
	Import
	out    *Outcome
	tally  *tally
	writer *usage.Writer
	chunk  chunk
}

// begin notes in the store that this file is being imported, before anything of it is written.
func (r *run) begin(ctx context.Context) error {
	name := "import/" + r.Source.ID
	begun, err := r.Store.Setting(ctx, name)
	if err == nil && begun == "" && !r.DryRun {
		err = r.Store.SetSetting(ctx, name, r.Now().UTC().Format(time.RFC3339))
	}
	if err != nil {
		return fmt.Errorf("note the import: %w", err)
	}
	table := usage.Table(r.Store)
	if r.DryRun {
		table = dryTable{r.Store}
	}
	r.tally = &tally{Table: table, again: begun != ""}
	r.writer, err = usage.NewWriter(r.tally, usage.Options{Fold: fold, Now: r.Now})
	return err
}

func (r *run) read(ctx context.Context) error {
	file, sum, err := r.Source.lines()
	if err != nil {
		return err
	}
	r.out.header = file.Header
	defer r.writer.Close(context.WithoutCancel(ctx))
	limits := r.Limits.orDefault()
	for line, err := range file.Lines() {
		var fault *usagefile.FileError
		if errors.As(err, &fault) {
			return err
		}
		r.chunk.add(line, err)
		if r.chunk.full(limits) {
			if err := r.write(ctx); err != nil {
				return err
			}
		} else if len(r.chunk.lines)%progressLines == 0 {
			r.progress(line.Offset + line.Size)
		}
	}
	if err := r.Source.cut(); err != nil {
		return err
	}
	if err := r.write(ctx); err != nil {
		return err
	}
	if digest(sum) != r.Source.ID {
		return ErrChanged
	}
	r.out.Complete = true
	return nil
}

const progressLines = 1000

func (r *run) progress(bytes int64) {
	if r.Progress != nil {
		r.Progress(bytes, r.out.Lines+len(r.chunk.lines))
	}
}

// write gives every line of the chunk its fate, and begins the next one. A chunk that was begun is finished: to stop in the midst
// of it would leave lines of unknown fate.
func (r *run) write(ctx context.Context) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	if len(r.chunk.lines) == 0 {
		return nil
	}
	r.tally.begin()
	id := fmt.Sprintf("%s/%d", r.Source.ID, r.out.chunks)
	errs, err := r.writer.WriteBatch(context.WithoutCancel(ctx), id, r.chunk.events)
	if err != nil {
		return err
	}
	if err := unknown(errs); err != nil {
		return err
	}
	if err := r.out.settle(&r.chunk, errs, r.tally); err != nil {
		return err
	}
	r.out.chunks++
	last := r.chunk.lines[len(r.chunk.lines)-1]
	r.chunk.reset()
	r.progress(last.offset + last.size)
	return nil
}

// unknown is the first error that says nothing about the line but that its fate is not known.
func unknown(errs []error) error {
	for _, err := range errs {
		if err == nil || errors.Is(err, usage.ErrLate) || errors.Is(err, usage.ErrHourCommitted) {
			continue
		}
		if _, ok := errors.AsType[*usage.Refusal](err); !ok {
			return err
		}
	}
	return nil
}
