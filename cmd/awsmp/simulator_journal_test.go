package main

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/awsmp/metering/simulator"
)

// process is the simulator in a process of its own.
type process struct {
	cmd          *exec.Cmd
	endpoint     string
	introduction string
	client       *http.Client
}

func startProcess(t *testing.T, journal string) *process {
	t.Helper()
	p := &process{
		cmd:    exec.CommandContext(t.Context(), "awsmp", "simulator", "--addr", "127.0.0.1:0", "--calls-per-second", "0", "--journal", journal),
		client: &http.Client{Transport: &http.Transport{}},
	}
	out, err := p.cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	var errs strings.Builder
	p.cmd.Stderr = &errs
	if err := p.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	for lines := bufio.NewScanner(out); lines.Scan(); {
		p.introduction += lines.Text() + "\n"
		if _, after, ok := strings.Cut(lines.Text(), "Everything else: curl "); ok {
			p.endpoint = strings.TrimSuffix(after, "/_simulator/")
			return p
		}
	}
	t.Fatalf("the simulator did not start: %v\n%s", p.cmd.Wait(), errs.String())
	return nil
}

// kill ends the process as the kernel does, with nothing of its own left to run.
func (p *process) kill(t *testing.T) {
	t.Helper()
	if err := p.cmd.Process.Kill(); err != nil {
		t.Error(err)
	}
	var exit *exec.ExitError
	if err := p.cmd.Wait(); !errors.As(err, &exit) || exit.Exited() {
		t.Errorf("the process ended by itself: %v", err)
	}
	p.client.CloseIdleConnections()
}

func (p *process) ledger(t *testing.T) map[string]simulator.Billed {
	t.Helper()
	res, err := p.client.Get(p.endpoint + "/_simulator/ledger")
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	var all []simulator.Billed
	if err := json.NewDecoder(res.Body).Decode(&all); err != nil {
		t.Fatal(err)
	}
	byDimension := map[string]simulator.Billed{}
	for _, b := range all {
		byDimension[b.Dimension] = b
	}
	return byDimension
}

type answeredRecord struct {
	MeteringRecordID string `json:"MeteringRecordId"`
	Status           string
	UsageRecord      struct {
		Dimension string
		Quantity  int64
	}
}

// meter sends 25 records and returns what was answered.
func (p *process) meter(call string) ([]answeredRecord, error) {
	var records []string
	for i := range 25 {
		records = append(records, fmt.Sprintf(`{"Timestamp":%d,"Dimension":"%s/%d","Quantity":%d,"CustomerAWSAccountId":"111122223333",`+
			`"LicenseArn":"arn:aws:license-manager::111122223333:license:l-1"}`, time.Now().Unix(), call, i, i))
	}
	req, err := http.NewRequest(http.MethodPost, p.endpoint, strings.NewReader(`{"UsageRecords":[`+strings.Join(records, ",")+`]}`))
	if err != nil {
		return nil, err
	}
	req.Header.Set("Content-Type", "application/x-amz-json-1.1")
	req.Header.Set("X-Amz-Target", "AWSMPMeteringService.BatchMeterUsage")
	res, err := p.client.Do(req)
	if err != nil {
		return nil, err
	}
	defer res.Body.Close()
	body, err := io.ReadAll(res.Body)
	if err != nil {
		return nil, err // killed in the middle of its answer
	}
	var answer struct{ Results []answeredRecord }
	if err := json.Unmarshal(body, &answer); err != nil || len(answer.Results) != 25 {
		return nil, fmt.Errorf("HTTP %d, %w: %s", res.StatusCode, err, body)
	}
	return answer.Results, nil
}

// The process is killed by SIGKILL while several callers send. Whatever was answered is there when it comes back, whatever was
// not is there as a whole call or not at all.
func TestSimulatorJournalSurvivesKill(t *testing.T) {
	t.Parallel()
	const rounds, callers, calls = 3, 4, 40
	journal := filepath.Join(t.TempDir(), "marketplace.ndjson")
	answered := map[string]answeredRecord{}
	for round := range rounds {
		p := startProcess(t, journal)
		wantAnswered(t, p, answered)

		enough := make(chan struct{})
		var mu sync.Mutex
		var all sync.WaitGroup
		heard := 0
		for caller := range callers {
			all.Go(func() {
				for n := 0; ; n++ {
					results, err := p.meter(fmt.Sprintf("%d-%d-%d", round, caller, n))
					if err != nil {
						return // the process is gone
					}
					mu.Lock()
					for _, r := range results {
						answered[r.UsageRecord.Dimension] = r
					}
					if heard++; heard == calls {
						close(enough)
					}
					mu.Unlock()
				}
			})
		}
		<-enough
		p.kill(t)
		all.Wait()
	}
	if len(answered) < rounds*calls*25 {
		t.Fatalf("only %d records were answered", len(answered))
	}
	p := startProcess(t, journal)
	defer p.kill(t)
	wantAnswered(t, p, answered)
	if want := fmt.Sprintf("Journal: %s. Hours billed before: %d.\n", journal, len(p.ledger(t))); !strings.Contains(p.introduction, want) {
		t.Errorf("the introduction does not say %q:\n%s", want, p.introduction)
	}

	second, err := exec.CommandContext(t.Context(), "awsmp", "simulator", "--addr", "127.0.0.1:0", "--journal", journal).CombinedOutput()
	want := "awsmp: the journal " + journal + " is in use by another simulator\nTry: stop that one, or name another file\n"
	if exitCodeOf(err) != "1" || string(second) != want {
		t.Errorf("exit code %s and\n%s\nwant 1 and\n%s", exitCodeOf(err), second, want)
	}
}

func wantAnswered(t *testing.T, p *process, answered map[string]answeredRecord) {
	t.Helper()
	ledger := p.ledger(t)
	for dimension, r := range answered {
		b, ok := ledger[dimension]
		if !ok || r.Status != "Success" || b.Quantity != r.UsageRecord.Quantity || b.MeteringRecordID != r.MeteringRecordID {
			t.Errorf("answered %+v, in the ledger %v, %+v", r, ok, b)
		}
	}
	parts := map[string]int{}
	for dimension := range ledger {
		call, _, _ := strings.Cut(dimension, "/")
		parts[call]++
	}
	for call, n := range parts {
		if n != 25 {
			t.Errorf("call %s is there with %d of its 25 records", call, n)
		}
	}
	t.Logf("answered %d records, in the ledger %d", len(answered), len(ledger))
}
