package main

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"

	"github.com/awsmp/metering/internal/desk"
	"github.com/awsmp/metering/internal/folder"
	"github.com/awsmp/metering/internal/importer"
	"github.com/awsmp/metering/internal/ledger"
	"github.com/awsmp/metering/internal/metering"
	"github.com/awsmp/metering/internal/usagefile"
)

// importReport says what became of a file.
type importReport struct {
	importFlags
	*importer.Outcome
	source *importer.Source
	saved  string // where the refused lines stand
}

func (r *importReport) write(out, errs io.Writer) error {
	var unsaved error
	if r.Mendable() > 0 && !r.dryRun {
		name := r.refused
		if name == "" {
			name = r.source.RefusedName()
		}
		r.saved, unsaved = r.WriteRefused(name, r.refused == "")
	}
	var err error
	switch {
	case r.json:
		err = r.document(out)
	case !r.quiet:
		err = r.summary(out)
	}
	if !r.json {
		err = errors.Join(err, r.named(errs))
	}
	switch {
	case err != nil:
		return fmt.Errorf("report the import: %w", err)
	case unsaved != nil:
		return &failure{exitError, fmt.Errorf("the file was imported, but: %w", unsaved), "the same command again with another --refused FILE; what was added is not added twice"}
	case r.Refused.Count > 0:
		return &failure{code: exitRefused}
	}
	return nil
}

func (r *importReport) summary(out io.Writer) error {
	w := bufio.NewWriter(out)
	lines := ledger.Counted(int64(r.Lines), "line") + " of usage"
	if r.dryRun {
		fmt.Fprintf(w, "Dry run of %s: %s, and nothing is written\n", importer.Shown(r.source.Name), lines)
	} else {
		fmt.Fprintf(w, "Imported %s into %s: %s\n", importer.Shown(r.source.Name), folder.Store(r.data), lines)
	}
	fmt.Fprintf(w, "  taken    %s\n", amount(r.Taken))
	if r.Late.Lines > 0 {
		fmt.Fprintf(w, "  late     %s: added, but after their hours were committed. Do not book them again\n", amount(r.Late))
	}
	if r.Refused.Count > 0 {
		fmt.Fprintf(w, "  refused  %s\n", ledger.Counted(int64(r.Refused.Count), "line"))
		for _, code := range slices.SortedFunc(maps.Keys(r.Codes), r.mostFirst) {
			fmt.Fprintf(w, "             %s: %s\n", code, ledger.Counted(int64(r.Codes[code]), "line"))
		}
	}
	if r.Made+r.Grew > 0 {
		fmt.Fprintf(w, "  rows     %s new, %s added to\n", ledger.Thousands(int64(r.Made)), ledger.Thousands(int64(r.Grew)))
	}
	switch before := r.Before.Lines; {
	case before > 0 && before == r.Taken.Lines+r.Late.Lines:
		fmt.Fprintln(w, "Nothing is added: an earlier run of this file has added all of it.")
	case before > 0:
		fmt.Fprintf(w, "An earlier run of this file has added %s of this, which are not added again.\n", amount(r.Before))
	}
	return w.Flush()
}

func (r *importReport) mostFirst(a, b usagefile.Code) int {
	if n := r.Codes[b] - r.Codes[a]; n != 0 {
		return n
	}
	if a < b {
		return -1
	}
	return 1
}

func amount(a importer.Amount) string {
	return ledger.Counted(int64(a.Lines), "line") + ", " + ledger.Counted(a.Units, "unit")
}

// errEnough ends a list that is long enough.
var errEnough = errors.New("enough")

// named names the late and the refused lines, the first of them one by one.
func (r *importReport) named(errs io.Writer) error {
	w := bufio.NewWriter(errs)
	for _, list := range []struct {
		names *importer.Names
		what  string
	}{{&r.Tardy, "late"}, {&r.Refused, "refused"}} {
		if list.names.Count == 0 {
			continue
		}
		fmt.Fprintf(w, "\nawsmp: %s: %s %s\n", importer.Shown(r.source.Name), ledger.Counted(int64(list.names.Count), "line"), list.what)
		n := 0
		err := list.names.Each(func(l importer.Named) error {
			if n++; n > maxRefusedShown {
				fmt.Fprintf(w, "  and %s more: --json lists all of them\n", ledger.Counted(int64(list.names.Count-maxRefusedShown), "line"))
				return errEnough
			}
			_, err := fmt.Fprintf(w, "  line %d: %s. Try: %s\n", l.Line, l.Reason, l.Hint)
			return err
		})
		if err != nil && !errors.Is(err, errEnough) {
			return err
		}
	}
	if r.saved != "" {
		fmt.Fprintf(w, "The refused lines stand in %s. Mend them there, then: awsmp import %s%s\n", r.saved, desk.Word(r.saved), dataFlag(r.data))
	}
	if n := r.Codes[usagefile.Code(metering.TimestampInFuture)]; n > 0 && !r.dryRun {
		fmt.Fprintf(w, "%s for their time, and stand in no file of refused lines. Later: awsmp import %s%s, which adds nothing else\n",
			strings.Replace(ledger.Counted(int64(n), "line")+" wait", "1 line wait", "1 line waits", 1), desk.Word(importer.Shown(r.source.Name)), dataFlag(r.data))
	}
	return w.Flush()
}

// importDocument is what --json writes, and after it the lists of lines.
type importDocument struct {
	File        string          `json:"file"`
	SHA256      string          `json:"sha256"`
	DryRun      bool            `json:"dryRun"`
	Lines       int             `json:"lines"`
	Taken       importer.Amount `json:"taken"`
	Late        importer.Amount `json:"late"`
	AddedBefore importer.Amount `json:"addedBefore"`
	Rows        struct {
		New     int `json:"new"`
		AddedTo int `json:"addedTo"`
	} `json:"rows"`
	Refused struct {
		Lines  int                    `json:"lines"`
		ByCode map[usagefile.Code]int `json:"byCode"`
		File   string                 `json:"file,omitempty"`
	} `json:"refused"`
}

// document writes the document piece by piece: the lists may be long.
func (r *importReport) document(out io.Writer) error {
	d := importDocument{
		File: importer.Shown(r.source.Name), SHA256: r.source.ID, DryRun: r.dryRun,
		Lines: r.Lines, Taken: r.Taken, Late: r.Late, AddedBefore: r.Before,
	}
	d.Rows.New, d.Rows.AddedTo = r.Made, r.Grew
	d.Refused.Lines, d.Refused.ByCode, d.Refused.File = r.Refused.Count, r.Codes, r.saved
	head, err := json.MarshalIndent(d, "", "  ")
	if err != nil {
		return err
	}
	w := bufio.NewWriter(out)
	fmt.Fprintf(w, "%s,\n", head[:len(head)-len("\n}")])
	if err := writeNames(w, "lateLines", &r.Tardy); err != nil {
		return err
	}
	fmt.Fprint(w, ",\n")
	if err := writeNames(w, "refusedLines", &r.Refused); err != nil {
		return err
	}
	fmt.Fprint(w, "\n}\n")
	return w.Flush()
}

func writeNames(w io.Writer, key string, names *importer.Names) error {
	fmt.Fprintf(w, "  %q: [", key)
	between := "\n    "
	err := names.Each(func(l importer.Named) error {
		text, err := json.Marshal(l)
		if err != nil {
			return err
		}
		_, err = fmt.Fprintf(w, "%s%s", between, text)
		between = ",\n    "
		return err
	})
	if err != nil {
		return err
	}
	if names.Count > 0 {
		fmt.Fprint(w, "\n  ")
	}
	_, err = fmt.Fprint(w, "]")
	return err
}
