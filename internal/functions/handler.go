package functions

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"runtime"
	"slices"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"

	"github.com/awsmp/metering/internal/telemetry"
)

// reserve is how long before AWS ends an invocation its stage's context ends: what is done is then still acknowledged, and what
// is not is named.
const reserve = 2 * time.Second

// Process is what a function finds around it.
type Process struct {
	Handler string              // handler name
	Getenv  func(string) string // its environment
	Config  func(ctx context.Context, region string) (aws.Config, error)
	Metrics io.Writer // standard output: CloudWatch reads metrics from it
	Log     io.Writer
	Version string // of the program
	Now     func() time.Time
}

// Handler is a function that is ready to be called.
type Handler struct {
	event   Event
	run     stage
	log     *slog.Logger
	metrics *telemetry.EMF
	now     func() time.Time
}

// Open reads the environment and builds the stage. It calls no service.
func Open(ctx context.Context, p Process) (*Handler, error) {
	f, err := Named(p.Handler)
	if err != nil {
		return nil, err
	}
	s, err := f.Read(p.Getenv)
	if err != nil {
		return nil, err
	}
	config, err := p.Config(ctx, s.Region)
	if err != nil {
		return nil, fmt.Errorf("read configuration of %s: %w", f.Handler, err)
	}
	c := &clients{config: config}
	h := &Handler{
		event:   f.Event,
		log:     telemetry.NewLog(p.Log, s.LogLevel),
		metrics: telemetry.NewEMF(p.Metrics, telemetry.EMFOptions{ProductCode: s.ProductCode, MeteringMode: s.Mode, Now: p.Now}),
		now:     p.Now,
	}
	h.run = f.build(parts{Settings: s, clients: c, metrics: h.metrics, log: h.log, now: p.Now})
	about := []any{"handler", f.Handler, "version", p.Version}
	for _, of := range []struct{ name, value string }{{"mode", s.Mode}, {"product", s.ProductCode}, {"clients", strings.Join(c.built(), " ")}} {
		if of.value != "" {
			about = append(about, of.name, of.value)
		}
	}
	h.log.Info("function starts", about...)
	return h, nil
}

// Log is where the function logs.
func (h *Handler) Log() *slog.Logger { return h.log }

// Invoke handles one invocation (github.com/aws/aws-lambda-go/lambda, Handler). Its context's deadline is the time at which AWS
// ends the process. An error is short and has its identifiers masked, because Lambda's runtime logs it once more. A panic is not
// caught here: the process ends, nothing has been answered, and so no message is acknowledged.
//
// Of a Request nothing is logged but how it was answered: neither what it holds, nor the text of a panic that may repeat it.
func (h *Handler) Invoke(ctx context.Context, payload []byte) ([]byte, error) {
	if h.event == Request {
		defer silenced()
	}
	if deadline, ok := ctx.Deadline(); ok {
		var cancel context.CancelFunc
		ctx, cancel = context.WithDeadline(ctx, deadline.Add(-reserve))
		defer cancel()
	}
	started := h.now()
	answer, report, err := h.run(ctx, payload)
	err = errors.Join(err, h.metrics.TakeErr()) // what no metric tells must not look well
	attrs := flat(report)
	if h.event == Schedule {
		attrs = append(input(payload), attrs...)
	}
	attrs = append(attrs, "took", h.now().Sub(started).Round(time.Millisecond))
	if err != nil {
		h.log.Error("run failed", append(attrs, "error", err)...)
		return nil, brief(err)
	}
	h.log.Info("run ended", attrs...)
	return json.Marshal(answer)
}

// silenced lets a panic go on without its text, which Lambda's runtime would log. What the Go runtime itself panics with holds no values
// of the program's, and the stack is the same.
func silenced() {
	switch r := recover().(type) {
	case nil:
	case runtime.Error:
		panic(r)
	default:
		panic(fmt.Sprintf("%T; its text is left out: it may hold what a buyer typed", r))
	}
}

// longestError is the longest error that is answered, in bytes; the log has all of it.
const longestError = 1024

// brief is the first line of an error that may have many, masked.
func brief(err error) error {
	text, rest, more := strings.Cut(telemetry.Mask(err.Error()), "\n")
	if len(text) > longestError {
		text = strings.ToValidUTF8(text[:longestError], "") + "…"
	}
	if more {
		text += fmt.Sprintf(" (and %d more: see the function's log)", 1+strings.Count(rest, "\n"))
	}
	return errors.New(text)
}

// longestInput is the longest input of a schedule that the log repeats.
const longestInput = 128

func input(payload []byte) []any {
	var compact bytes.Buffer
	if json.Compact(&compact, payload) != nil || compact.Len() > longestInput {
		return nil
	}
	return []any{"input", compact.String()}
}

// flat are the members of a report, by the names that the answer gives them.
func flat(report any) []any {
	text, err := json.Marshal(report)
	if err != nil {
		return []any{"report", err}
	}
	d := json.NewDecoder(bytes.NewReader(text))
	d.UseNumber()
	var members map[string]any
	if err := d.Decode(&members); err != nil { // no report at all
		return nil
	}
	var attrs []any
	for _, name := range slices.Sorted(maps.Keys(members)) {
		attrs = append(attrs, name, members[name])
	}
	return attrs
}
