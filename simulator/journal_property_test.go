package simulator_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/awsmp/metering/simulator"
	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

// twins are two simulators that are asked the same: one in memory that never stops, and one with a journal that is closed or
// killed now and then. Nobody may be able to tell them apart.
type twins struct {
	clock  clock
	memory *simulator.Simulator
	kept   *simulator.Simulator
	path   string
	opened int
	tokens []string
}

func (w *twins) options(r *rand) simulator.Options {
	return simulator.Options{
		Now:             w.clock.Now,
		Rand:            r.float,
		Dimensions:      []string{"api_calls", "storage", "seats", "users", "gb"},
		UnknownCustomer: simulator.ByStatus, // so that one of them does not refuse a whole call
		ShuffleResults:  true,
	}
}

// rand draws the same for both twins.
type rand struct{ state uint64 }

func (r *rand) float() float64 {
	r.state = r.state*6364136223846793005 + 1442695040888963407
	return float64(r.state>>11) / (1 << 53)
}

// both does the same to both.
func (w *twins) both(t *rapid.T, do func(*simulator.Simulator) (any, error)) any {
	a, errA := do(w.memory)
	b, errB := do(w.kept)
	if diff := differences(a, b); diff != "" || (errA == nil) != (errB == nil) {
		t.Fatalf("errors %v and %v, answers (-memory +journal):\n%s", errA, errB, diff)
	}
	return a
}

// differences is cmp.Diff, which takes its time to say that there are none.
func differences(a, b any) string {
	if reflect.DeepEqual(a, b) {
		return ""
	}
	return cmp.Diff(a, b)
}

func (w *twins) change(t *rapid.T, do func(*simulator.Simulator) error) {
	w.both(t, func(s *simulator.Simulator) (any, error) { return nil, do(s) })
}

// say sends a call; a broken connection is an answer, too.
func (w *twins) say(t *rapid.T, operation string, body any) {
	text, err := json.Marshal(body)
	if err != nil {
		t.Fatal(err)
	}
	w.both(t, func(s *simulator.Simulator) (any, error) {
		req, err := http.NewRequest(http.MethodPost, simulator.Endpoint, bytes.NewReader(text))
		if err != nil {
			return nil, err
		}
		req.Header.Set("Content-Type", "application/x-amz-json-1.1")
		req.Header.Set("X-Amz-Target", "AWSMPMeteringService."+operation)
		res, err := s.Client().Do(req)
		if err != nil {
			return "no answer", nil
		}
		defer res.Body.Close()
		var answer any
		return answer, json.NewDecoder(res.Body).Decode(&answer)
	})
}

// restart closes the journal, or leaves it as a kill would: perhaps with a part of a line that was not finished.
func (w *twins) restart(t *rapid.T, dir string, seed uint64) {
	killed := rapid.Bool().Draw(t, "killed")
	if killed {
		text, err := os.ReadFile(w.path)
		if err != nil {
			t.Fatal(err)
		}
		torn := `{"usage":{"records":[{"licenseArn":"arn:`
		text = append(text, torn[:rapid.IntRange(0, len(torn)).Draw(t, "torn")]...)
		w.opened++
		w.path = filepath.Join(dir, fmt.Sprint("killed-", w.opened)) // the old file is locked by the simulator that cannot be killed here
		if err := os.WriteFile(w.path, text, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.kept.Close(); err != nil {
		t.Fatal(err)
	}
	w.open(t, seed)
	// Faults are not kept, the random numbers go on from anywhere: both begin anew.
	w.memory.ClearFaults()
}

func (w *twins) open(t *rapid.T, seed uint64) {
	options := w.options(&rand{seed})
	options.Journal = w.path
	var err error
	if w.kept, err = simulator.New(options); err != nil {
		t.Fatal(err)
	}
}

func TestJournalIsAsIfItNeverStopped(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		dir, err := os.MkdirTemp("", "journal")
		if err != nil {
			t.Fatal(err)
		}
		defer os.RemoveAll(dir)
		w := &twins{clock: clock{now: time.Date(2026, 3, 10, 15, 20, 0, 0, time.UTC)}, path: filepath.Join(dir, "journal")}
		draws := &rand{1}
		if w.memory, err = simulator.New(w.options(draws)); err != nil {
			t.Fatal(err)
		}
		w.open(t, 1)
		defer func() { _ = w.kept.Close() }()
		owners := map[string]string{licenseA: buyer, licenseB: other}
		for arn, account := range owners {
			w.change(t, func(s *simulator.Simulator) error {
				return s.PutLicense(simulator.License{ARN: arn, AccountID: account})
			})
		}
		w.change(t, func(s *simulator.Simulator) error {
			return s.PutCustomer(simulator.Customer{Identifier: "cust-1", AccountID: buyer, Active: true})
		})

		account := rapid.SampledFrom([]string{buyer, other})
		identifier := rapid.SampledFrom([]string{"cust-1", buyer, "kéy <&>"})
		license := rapid.SampledFrom([]string{licenseA, licenseB})
		dimension := rapid.SampledFrom([]string{"api_calls", "storage", "seats", "users", "gb"})
		hoursAgo := rapid.SampledFrom([]time.Duration{0, 0, 17 * time.Minute, time.Hour, 5 * time.Hour})
		record := func(t *rapid.T, legacyScheme bool) fields {
			arn := license.Draw(t, "license")
			r := usage(fields{
				"CustomerAWSAccountId": rapid.SampledFrom([]string{owners[arn], owners[arn], owners[arn], buyer}).Draw(t, "account"),
				"LicenseArn":           arn,
				"Dimension":            dimension.Draw(t, "dimension"),
				"Quantity":             rapid.IntRange(0, 2).Draw(t, "quantity"),
				"Timestamp":            w.clock.now.Add(-hoursAgo.Draw(t, "age")).Unix(),
			})
			if rapid.Bool().Draw(t, "allocated") {
				r["UsageAllocations"] = []fields{{"AllocatedUsageQuantity": r["Quantity"], "Tags": tags("team", rapid.SampledFrom([]string{"a", "b & c"}).Draw(t, "tag"))}}
			}
			if legacyScheme {
				delete(r, "LicenseArn")
				if rapid.Bool().Draw(t, "by identifier") {
					delete(r, "CustomerAWSAccountId")
					r["CustomerIdentifier"] = identifier.Draw(t, "identifier")
				}
			}
			return r
		}
		steps := map[string]func(*rapid.T){
			"meter": func(t *rapid.T) {
				legacyScheme := rapid.Bool().Draw(t, "legacy")
				body := fields{"UsageRecords": rapid.SliceOfN(rapid.Custom(func(t *rapid.T) fields { return record(t, legacyScheme) }), 1, 4).Draw(t, "records")}
				if legacyScheme {
					body["ProductCode"] = product
				}
				w.say(t, "BatchMeterUsage", body)
			},
			"license": func(t *rapid.T) {
				arn := license.Draw(t, "license")
				l := simulator.License{ARN: arn, AccountID: rapid.SampledFrom([]string{owners[arn], owners[arn], buyer}).Draw(t, "account")}
				if rapid.Bool().Draw(t, "closing") {
					l.DeprovisionedAt = w.clock.now.Add(-hoursAgo.Draw(t, "age"))
				}
				w.change(t, func(s *simulator.Simulator) error { return s.PutLicense(l) })
			},
			"customer": func(t *rapid.T) {
				c := simulator.Customer{Identifier: rapid.OneOf(identifier, rapid.Just("")).Draw(t, "identifier"), Active: rapid.Bool().Draw(t, "active")}
				c.AccountID = rapid.OneOf(account, rapid.Just("")).Draw(t, "account")
				w.change(t, func(s *simulator.Simulator) error { return s.PutCustomer(c) })
			},
			"suspend": func(t *rapid.T) {
				id, suspended := account.Draw(t, "account"), rapid.Bool().Draw(t, "suspended")
				w.change(t, func(s *simulator.Simulator) error { return s.SuspendAccount(id, suspended) })
			},
			"dimension": func(t *rapid.T) {
				name, defined := dimension.Draw(t, "dimension"), rapid.Bool().Draw(t, "defined")
				w.change(t, func(s *simulator.Simulator) error {
					if defined {
						return s.DefineDimension(name)
					}
					return s.UndefineDimension(name)
				})
			},
			"token": func(t *rapid.T) {
				token := simulator.Token{AccountID: account.Draw(t, "account"), Value: rapid.SampledFrom([]string{"", "", "given"}).Draw(t, "value"), TTL: time.Hour}
				w.tokens = append(w.tokens, w.both(t, func(s *simulator.Simulator) (any, error) { return s.IssueToken(token) }).(string))
			},
			"resolve": func(t *rapid.T) {
				w.say(t, "ResolveCustomer", fields{"RegistrationToken": rapid.SampledFrom(append([]string{"nothing"}, w.tokens...)).Draw(t, "token")})
			},
			"reset": func(t *rapid.T) {
				if rapid.IntRange(0, 9).Draw(t, "one of ten") == 0 {
					w.change(t, (*simulator.Simulator).Reset)
				}
			},
			"fault": func(t *rapid.T) {
				kinds := []simulator.FaultKind{simulator.Throttle, simulator.InternalError, simulator.Unprocessed, simulator.LoseReply, simulator.Unreachable}
				f := simulator.Fault{Kind: rapid.SampledFrom(kinds).Draw(t, "kind"), Times: 1, Probability: 0.7}
				w.memory.Inject(f)
				w.kept.Inject(f)
			},
			"clock": func(t *rapid.T) {
				w.clock.now = w.clock.now.Add(time.Duration(rapid.Int64Range(1, int64(90*time.Minute)).Draw(t, "ahead")))
			},
			"restart": func(t *rapid.T) {
				draws.state = rapid.Uint64().Draw(t, "seed")
				w.restart(t, dir, draws.state)
			},
			"": func(t *rapid.T) {
				if diff := differences(w.memory.Ledger(), w.kept.Ledger()); diff != "" {
					t.Fatalf("ledger (-memory +journal):\n%s", diff)
				}
				for _, b := range w.memory.Ledger() {
					id := b.LicenseARN + b.CustomerIdentifier
					one, inMemory := w.memory.Billed(id, b.AccountID, b.Dimension, b.Hour)
					two, inJournal := w.kept.Billed(id, b.AccountID, b.Dimension, b.Hour)
					if diff := differences(one, two); diff != "" || inMemory != inJournal {
						t.Fatalf("Billed %v, %v (-memory +journal):\n%s", inMemory, inJournal, diff)
					}
				}
			},
		}
		for i := range 8 { // what matters most happens most
			steps[fmt.Sprint("meter ", i)] = steps["meter"]
		}
		t.Repeat(steps)
		steps["restart"](t)
		steps[""](t)
		for _, token := range w.tokens {
			w.say(t, "ResolveCustomer", fields{"RegistrationToken": token})
		}
	})
}

// What killed and torn say of a journal must not depend on what the part of a line holds.
func TestJournalTornTailOfZeros(t *testing.T) {
	t.Parallel()
	path, _, want := journalled(t)
	whole := contents(t, path)
	for _, tail := range []string{strings.Repeat("\x00", 5000), "{", "}", `{"reset":{},"crc32":"00000000"}`, strings.Repeat("x", 1<<17)} {
		try(t, os.WriteFile(path, append(bytes.Clone(whole), tail...), 0o600))
		sim := reopen(t, path, simulator.Options{})
		wantLedger(t, sim, want)
		closed(t, sim)
		if got := contents(t, path); !bytes.Equal(got, whole) {
			t.Errorf("%.20q is still there", tail)
		}
	}
}
