package functions

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/awsmp/metering/internal/lambdaevent"
	"github.com/awsmp/metering/internal/metering"
	"github.com/awsmp/metering/internal/pipeline"
	"github.com/awsmp/metering/internal/telemetry"
)

func handlerOf(run stage, metrics, log io.Writer) *Handler {
	return &Handler{
		event: Schedule, run: run, now: time.Now,
		log:     telemetry.NewLog(log, slog.LevelInfo),
		metrics: telemetry.NewEMF(metrics, telemetry.EMFOptions{ProductCode: "example", MeteringMode: live, Now: time.Now}),
	}
}

// A stage that is still at work when its time is up stops two seconds before AWS ends the process: what it has done is
// acknowledged, and what it has not comes again.
func TestAStageStopsBeforeAWSEndsIt(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		started := time.Now()
		handle := func(ctx context.Context, messages []pipeline.Message) (failed []string) {
			for _, m := range messages { // each takes 4 s
				select {
				case <-time.After(4 * time.Second):
				case <-ctx.Done():
					failed = append(failed, m.ID)
				}
			}
			return failed
		}
		payload := []byte(`{"Records":[` + strings.Join([]string{record("m1"), record("m2"), record("m3")}, ",") + `]}`)
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
		defer cancel()
		var log bytes.Buffer
		answer, err := handlerOf(batch(handle), io.Discard, &log).Invoke(ctx, payload)
		const want = `{"batchItemFailures":[{"itemIdentifier":"m3"}]}`
		if string(answer) != want || err != nil {
			t.Errorf("answer %s, error %v, want %s", answer, err, want)
		}
		if took := time.Since(started); took != 8*time.Second {
			t.Errorf("answered after %v, want 8s of 10", took)
		}
		if !strings.Contains(log.String(), "failed=1 messages=3 took=8s") {
			t.Errorf("log %s", log.String())
		}
	})
}

func record(id string) string {
	return fmt.Sprintf(`{"messageId":%q,"eventSource":"aws:sqs","body":"{}"}`, id)
}

// A panic ends the process before anything is answered: the runtime reports it, and the whole batch comes again.
func TestAPanicIsNotAnswered(t *testing.T) {
	t.Parallel()
	h := handlerOf(batch(func(context.Context, []pipeline.Message) []string { panic("broken") }), io.Discard, io.Discard)
	defer func() {
		if r := recover(); r != "broken" {
			t.Errorf("recovered %v", r)
		}
	}()
	answer, err := h.Invoke(t.Context(), []byte(`{"Records":[`+record("m1")+`]}`))
	t.Errorf("answered %s, error %v", answer, err)
}

// The log names what a run did by the names of the answer, whole numbers as such, beside an error too.
func TestTheLogTellsTheReport(t *testing.T) {
	t.Parallel()
	var log bytes.Buffer
	h := handlerOf(scheduled(func(context.Context) (pipeline.Discovery, error) {
		return pipeline.Discovery{Entries: 12345678, Enqueued: 3}, errors.New("read rows: account 111122223333 is locked")
	}), io.Discard, &log)
	if _, err := h.Invoke(t.Context(), []byte(`{ "n": 1 }`)); err == nil || strings.Contains(err.Error(), "111122223333") {
		t.Errorf("error %v", err)
	}
	for _, want := range []string{"level=ERROR", `msg="run failed"`, `input="{\"n\":1}"`, "enqueued=3 entries=12345678", "account …3333 is locked"} {
		if !strings.Contains(log.String(), want) {
			t.Errorf("log %s lacks %s", log.String(), want)
		}
	}
	if strings.Count(log.String(), "\n") != 1 {
		t.Errorf("log %s is not one line", log.String())
	}
}

// What is answered is short: Lambda's runtime logs it once more, and puts it into a header.
func TestTheAnswerNamesTheFirstOfManyErrors(t *testing.T) {
	t.Parallel()
	for want, err := range map[string]error{
		"read rows: denied":                                  errors.New("read rows: denied"),
		"a (and 2 more: see the function's log)":             errors.Join(errors.New("a"), errors.New("b"), errors.New("c")),
		strings.Repeat("x", 1023) + "…":                      errors.New(strings.Repeat("x", 1023) + "ääää"),
		"account …3333 (and 1 more: see the function's log)": errors.Join(errors.New("account 111122223333"), errors.New("b")),
	} {
		var log bytes.Buffer
		h := handlerOf(scheduled(func(context.Context) (pipeline.Expiry, error) { return pipeline.Expiry{}, err }), io.Discard, &log)
		if _, got := h.Invoke(t.Context(), []byte(`{}`)); got == nil || got.Error() != want {
			t.Errorf("error %v, want %s", got, want)
		}
		if lines := strings.Split(err.Error(), "\n"); !strings.Contains(log.String(), lines[len(lines)-1]+`"`) && !strings.Contains(log.String(), "error="+err.Error()) {
			t.Errorf("log %s lacks the end of %v", log.String(), err)
		}
	}
}

func TestALongInputIsNotLogged(t *testing.T) {
	t.Parallel()
	var log bytes.Buffer
	h := handlerOf(scheduled(func(context.Context) (pipeline.Expiry, error) { return pipeline.Expiry{}, nil }), io.Discard, &log)
	in, err := json.Marshal(map[string]string{"x": strings.Repeat("long", 100)})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := h.Invoke(t.Context(), in); err != nil || strings.Contains(log.String(), "long") {
		t.Errorf("error %v, log %s", err, log.String())
	}
}

// F52: of a request nothing is logged but how it was answered, however it ends: it holds a token and what a buyer typed.
func TestF52NothingOfARequestIsLogged(t *testing.T) {
	t.Parallel()
	const typed = "Erika Mustermann"
	payload := []byte(`{"httpMethod":"POST","path":"/","body":"` + typed + `"}`)
	tests := map[string]struct {
		run              http.HandlerFunc
		payload          []byte
		logs, errs, dies string
	}{
		"answered": {
			run:  func(w http.ResponseWriter, r *http.Request) { _, _ = io.Copy(w, r.Body) },
			logs: `level=INFO msg="run ended" status=200 took=`,
		},
		"no request": {
			payload: []byte(`{"body":"` + typed + `"}`),
			logs:    `level=ERROR msg="run failed" took=`, errs: "it has no httpMethod",
		},
		"a panic with its text": {run: func(http.ResponseWriter, *http.Request) { panic("cannot write " + typed) }, dies: "string; its text is left out"},
		"a panic with an error": {run: func(http.ResponseWriter, *http.Request) { panic(errors.New(typed)) }, dies: "*errors.errorString; its text is left out"},
		"a panic of Go's own": {
			run:  func(_ http.ResponseWriter, r *http.Request) { _ = any(typed).(int) },
			dies: "interface conversion: interface {} is string, not int",
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var log bytes.Buffer
			h := handlerOf(request(test.run), io.Discard, &log)
			h.event = Request
			if test.payload == nil {
				test.payload = payload
			}
			answer, died, err := invoked(t, h, test.payload)
			for what, text := range map[string]string{"log": log.String(), "error": fmt.Sprint(err), "panic": died} {
				if strings.Contains(text, typed) {
					t.Errorf("the %s repeats the request: %s", what, text)
				}
			}
			if !strings.Contains(log.String(), test.logs) || !strings.Contains(died, test.dies) || (died == "") != (test.dies == "") {
				t.Errorf("log %s, panic %s", log.String(), died)
			}
			if (err == nil) != (test.errs == "") || err != nil && (answer != nil || !strings.Contains(err.Error(), test.errs)) {
				t.Errorf("answer %s, error %v", answer, err)
			}
		})
	}
}

// invoked is what an invocation answered, or panicked with.
func invoked(t *testing.T, h *Handler, payload []byte) (answer []byte, died string, err error) {
	t.Helper()
	defer func() {
		if r := recover(); r != nil {
			died = fmt.Sprint(r)
		}
	}()
	answer, err = h.Invoke(t.Context(), payload)
	return answer, died, err
}

// Only a schedule's input is logged: what queues bring names buyers, and may be short.
func TestABatchIsNotLogged(t *testing.T) {
	t.Parallel()
	var log bytes.Buffer
	h := handlerOf(batch(func(context.Context, []pipeline.Message) []string { return nil }), io.Discard, &log)
	h.event = Queue
	if _, err := h.Invoke(t.Context(), []byte(`{"Records":[]}`)); err == nil || strings.Contains(log.String(), "input=") {
		t.Errorf("error %v, log %s", err, log.String())
	}
}

// Metrics that nobody gets are no success: of what was lost there would be no sign.
func TestMetricsThatCannotBeWrittenFailTheRun(t *testing.T) {
	t.Parallel()
	h := handlerOf(nil, brokenPipe{}, io.Discard)
	h.run = func(context.Context, []byte) (any, any, error) {
		h.metrics.Emit(metering.Measure{Metric: metering.MetricRowLate, Items: 1, Units: 5})
		return lambdaevent.Failed(nil), batchReport{Messages: 1}, nil
	}
	if answer, err := h.Invoke(t.Context(), nil); err == nil || answer != nil {
		t.Errorf("answer %s, error %v", answer, err)
	}
}

type brokenPipe struct{}

func (brokenPipe) Write([]byte) (int, error) { return 0, errors.New("broken pipe") }

// F40: what runs at once stays under the 1,000 writes a second that a partition takes: five cleanups, or seven shards of age-out.
func TestF40ThePacesStayUnderAPartitionsLimit(t *testing.T) {
	t.Parallel()
	p := parts{clients: &clients{}, Settings: Settings{CallsPerSecond: 2.5}, now: time.Now}
	if limit := float64(newCleaner(p).Limiter.Limit()); limit != cleanupWrites || 5*limit >= 1000 {
		t.Errorf("a cleanup writes %v rows a second", limit)
	}
	if discoverWrites*metering.AgeoutShards >= 1000 {
		t.Errorf("a discoverer writes %d rows a second", discoverWrites)
	}
	if pace := p.pace(); pace.CallsPerSecond != 2.5 {
		t.Errorf("%v calls a second", pace.CallsPerSecond)
	}
}
