package main

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"strings"
	"time"

	"github.com/awsmp/metering/internal/dev"
	"github.com/awsmp/metering/internal/ledger"
)

// maxEventFile bounds a file of events, as a node does.
const maxEventFile = 1 << 20

func (f *sendFlags) run(ctx context.Context, in io.Reader, out, errs io.Writer) error {
	text, err := f.text(ctx, in)
	if err != nil {
		return err
	}
	if f.note != "" && (f.print || f.json) { // which are for programs
		fmt.Fprintf(errs, "awsmp: %s\n", f.note)
		f.note = ""
	}
	switch {
	case f.print:
		var b bytes.Buffer
		if err := json.Indent(&b, text, "", "  "); err != nil {
			return err
		}
		b.WriteByte('\n')
		_, err := b.WriteTo(out)
		return err
	case f.event.Stage != "":
		return f.toStage(ctx, out, text)
	}
	return f.toNode(ctx, out, text)
}

// text is the event, or the array of them, as JSON.
func (f *sendFlags) text(ctx context.Context, in io.Reader) ([]byte, error) {
	if f.file != "" {
		return f.fromFile(in)
	}
	if f.event.At.IsZero() {
		now, err := f.now(ctx)
		if err != nil {
			return nil, err
		}
		f.event.At = now
	}
	if f.anyAccount {
		if err := f.findAccount(ctx); err != nil {
			return nil, err
		}
	}
	f.event.Start = cmp.Or(f.event.Start, f.event.At)
	f.event.End = cmp.Or(f.event.End, f.event.Start.AddDate(1, 0, 0))
	if !f.event.End.After(f.event.Start) {
		return nil, &failure{exitUsage, fmt.Errorf("--end is %s, and must be after the start, %s", f.event.End.Format(time.RFC3339), f.event.Start.Format(time.RFC3339)), "awsmp events send --help"}
	}
	text, err := f.event.JSON()
	if err != nil {
		return nil, fmt.Errorf("make the event: %w", err)
	}
	return text, nil
}

// now is the time by which the event's receiver goes. Where no node is there to ask and nothing is sent, any time will do.
func (f *sendFlags) now(ctx context.Context) (time.Time, error) {
	if f.event.Stage != "" {
		return time.Now(), nil
	}
	clock, err := decode[dev.Clock](f.call(ctx, http.MethodGet, "/v1/clock", nil))
	if errors.Is(err, errAbsent) && f.print {
		return time.Now(), nil
	}
	return clock.Now, err
}

// findAccount takes the account that the node knows of the license. An event of another one would close or open what nobody has.
func (f *sendFlags) findAccount(ctx context.Context) error {
	query := url.Values{"license": {f.event.License}, "agreement": {f.event.Agreement}}.Encode()
	known, err := decode[dev.Accounts](f.call(ctx, http.MethodGet, "/v1/accounts?"+query, nil))
	if err != nil && !(errors.Is(err, errAbsent) && f.print) {
		return err
	}
	switch n := len(known.Accounts); {
	case n > 1:
		return &failure{exitUsage, fmt.Errorf("the node knows this license of several accounts: %s", strings.Join(known.Accounts, ", ")), "name the one that is meant: --account " + known.Accounts[0]}
	case n == 1:
		f.event.Account = known.Accounts[0]
	case f.licenseNamed:
		f.note = fmt.Sprintf("account %s is the default; --account names another", f.event.Account)
	}
	return nil
}

// eventShape is the hint for what is no event.
const eventShape = "one event, or an array of them: awsmp events send license-updated --print shows one"

func (f *sendFlags) fromFile(in io.Reader) ([]byte, error) {
	name := f.file
	if name == "-" {
		name = "standard input"
	} else {
		file, err := os.Open(f.file)
		if err != nil {
			return nil, &failure{exitError, fmt.Errorf("read the event: %w", err), "awsmp events send license-updated --print > event.json"}
		}
		defer file.Close()
		in = file
	}
	text, err := io.ReadAll(io.LimitReader(in, maxEventFile+1))
	switch {
	case err != nil:
		return nil, fmt.Errorf("read %s: %w", name, err)
	case len(text) > maxEventFile:
		return nil, &failure{exitError, fmt.Errorf("%s is larger than %d bytes", name, maxEventFile), "send fewer events at a time"}
	case !json.Valid(text):
		return nil, &failure{exitError, fmt.Errorf("%s is no JSON", name), eventShape}
	}
	var list []json.RawMessage
	if json.Unmarshal(text, &list) == nil && len(list) == 0 && bytes.HasPrefix(bytes.TrimSpace(text), []byte("[")) {
		return nil, &failure{exitUsage, fmt.Errorf("%s is an empty array: there is no event in it", name), eventShape}
	}
	return text, nil
}

// toNode applies the events on a node.
func (f *sendFlags) toNode(ctx context.Context, out io.Writer, text []byte) error {
	reply, err := f.call(ctx, http.MethodPost, "/v1/events", json.RawMessage(text))
	if err != nil {
		return err
	}
	var results []dev.EventResult
	if bytes.HasPrefix(bytes.TrimSpace(reply), []byte("[")) {
		results, err = decode[[]dev.EventResult](reply, nil)
	} else {
		results = make([]dev.EventResult, 1)
		results[0], err = decode[dev.EventResult](reply, nil)
	}
	if err != nil {
		return err
	}
	if f.json {
		_, err = out.Write(reply)
	} else {
		text := told(results)
		if f.note != "" {
			text += "  " + f.note + "\n"
		}
		_, err = io.WriteString(out, text)
	}
	if err != nil {
		return err
	}
	failed, hint := 0, ""
	for _, r := range results {
		if r.Problem != nil {
			failed, hint = failed+1, r.Hint
		}
	}
	if failed > 0 {
		return &failure{exitError, fmt.Errorf("%d of %s not applied", failed, ledger.Counted(int64(len(results)), "event")), hint}
	}
	return nil
}

// told is what became of events, in words.
func told(results []dev.EventResult) string {
	var b strings.Builder
	for i, r := range results {
		if len(results) > 1 {
			fmt.Fprintf(&b, "%d. ", i+1)
		}
		if r.Applied == nil {
			fmt.Fprintf(&b, "Not applied: %s\n", r.Error)
			continue
		}
		fmt.Fprintf(&b, "%s: ", r.Kind)
		if r.Ignored != "" {
			fmt.Fprintf(&b, "nothing was done: %s.\n", r.Ignored)
			continue
		}
		changed := 0
		for _, c := range r.Licenses {
			if c.Changed {
				changed++
			}
		}
		fmt.Fprintf(&b, "%s of %s changed", ledger.Thousands(int64(changed)), ledger.Counted(int64(len(r.Licenses)), "license"))
		switch {
		case changed == 0:
			b.WriteString(": what the table holds is newer, or the same")
		case changed < len(r.Licenses):
			b.WriteString(": of the others what the table holds is newer, or the same")
		}
		b.WriteString(".\n")
		for _, c := range r.Licenses {
			fmt.Fprintf(&b, "  %s of %s: ", c.License, c.Account)
			if c.Status != "" {
				fmt.Fprintf(&b, "license %s", c.Status)
			}
			if !c.Expiry.IsZero() {
				fmt.Fprintf(&b, ", its last hour ends at %s UTC", c.Expiry.UTC().Format("2006-01-02 15:04:05"))
			}
			if c.AgreementStatus != "" {
				if c.Status != "" {
					b.WriteString("; ")
				}
				fmt.Fprintf(&b, "agreement %s", c.AgreementStatus)
			}
			b.WriteByte('\n')
		}
		if r.Problem != nil {
			fmt.Fprintf(&b, "  Then it failed: %s\n", r.Error)
		}
	}
	return b.String()
}
