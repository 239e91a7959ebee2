package main

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/awsmp/metering/internal/dev"
	"github.com/awsmp/metering/internal/ledger"
)

// devProcess is the command in a process of its own.
type devProcess struct {
	t        *testing.T
	cmd      *exec.Cmd
	endpoint string
	intro    string
	rest     chan string // what it prints after that
}

func startDev(t *testing.T, data string, args ...string) *devProcess {
	t.Helper()
	p := &devProcess{t: t, rest: make(chan string, 1)}
	p.cmd = exec.CommandContext(t.Context(), os.Args[0])
	p.cmd.Args = append([]string{"awsmp", "dev", "--data", data, "--addr", "127.0.0.1:0"}, args...) // TestMain looks at the name
	var errs bytes.Buffer
	p.cmd.Stderr = &errs
	out, err := p.cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := p.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	lines := bufio.NewScanner(out)
	for lines.Scan() {
		p.intro += lines.Text() + "\n"
		if address, ok := strings.CutPrefix(lines.Text(), "Node: "); ok {
			p.endpoint = address
		}
		if strings.HasSuffix(lines.Text(), "/v1/ledger") {
			break
		}
	}
	if p.endpoint == "" {
		t.Fatalf("the command ended: %v\n%s%s", p.cmd.Wait(), p.intro, errs.String())
	}
	go func() {
		var rest strings.Builder
		for lines.Scan() {
			rest.WriteString(lines.Text() + "\n")
		}
		p.rest <- rest.String()
	}()
	return p
}

// end signals the process and returns the rest of its output.
func (p *devProcess) end(signal os.Signal) (rest string, err error) {
	_ = p.cmd.Process.Signal(signal)
	rest = <-p.rest
	return rest, p.cmd.Wait()
}

// ask sends a request and reads the answer's JSON; it fails where no answer comes.
func (p *devProcess) ask(method, path, key, body string, into any) error {
	r, err := http.NewRequestWithContext(p.t.Context(), method, p.endpoint+path, strings.NewReader(body))
	if err != nil {
		return err
	}
	r.Header.Set("Content-Type", "application/x-ndjson")
	if key != "" {
		r.Header.Set("Idempotency-Key", key)
	}
	response, err := http.DefaultClient.Do(r)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	if err != nil {
		return err
	}
	return json.Unmarshal(text, into)
}

func TestDevPrintsALineThatWorks(t *testing.T) {
	t.Parallel()
	needForSimulator(t, "curl", "--version")
	p := startDev(t, filepath.Join(t.TempDir(), "month end"), "--at", "2026-03-31T18:00:00Z")
	line := lineAfter(t, p.intro, "Write usage:")
	if !strings.Contains(line, "Idempotency-Key: first-2026-03-31T18:00:0") { // the next start prints another body
		t.Errorf("the line is %s", line)
	}
	if got := shell(t, "", "sh", "-c", line); !strings.Contains(got, `"written": 1`) {
		t.Errorf("curl printed %s", got)
	}
	var status dev.Status
	if err := p.ask("GET", "/v1/status", "", "", &status); err != nil || len(status.Waiting) != 1 || status.Waiting[0].Units != 3 {
		t.Errorf("status %+v: %v", status, err)
	}
	if rest, err := p.end(os.Interrupt); err != nil || !strings.HasPrefix(rest, "\nStopped at 2026-03-31 18:0") {
		t.Errorf("error %v and %q", err, rest)
	}
}

// TestDevTellsOfARegistration: a buyer registers, and both terminals show it.
func TestDevTellsOfARegistration(t *testing.T) {
	t.Parallel()
	data := filepath.Join(t.TempDir(), "data")
	p := startDev(t, data, "--at", "2026-03-10T15:20:00Z", "--registration-fields", "none")
	var token struct{ Token string }
	if err := p.ask("POST", "/_simulator/tokens", "", fmt.Sprintf(`{"accountId": %q, "licenseArn": %q}`, exampleAccount, exampleLicense), &token); err != nil || token.Token == "" {
		t.Fatalf("%+v: %v", token, err)
	}
	for _, token := range []string{token.Token, "none"} {
		r, err := http.PostForm(p.endpoint+"/register", url.Values{"x-amzn-marketplace-token": {token}})
		if err != nil {
			t.Fatal(err)
		}
		r.Body.Close()
	}
	var out, errs bytes.Buffer
	if code := run(t.Context(), []string{"status", "--data", data}, strings.NewReader(""), &out, &errs); code != exitOK || !strings.Contains(out.String(), "  BuyerRegistered      1\n  RegistrationRefused  1\n") {
		t.Errorf("%d %s%s", code, out.String(), errs.String())
	}
	story, err := p.end(os.Interrupt)
	for _, want := range []string{"  register   buyer …3333 of license …cdef registered\n", "  register   buyer refused: InvalidToken\n"} {
		if _, line, found := strings.Cut(story, "03-10 15:2"); err != nil || !found || !strings.Contains(line, want) {
			t.Errorf("%v, and %q is not in %s", err, want, story)
		}
	}
}

// TestDevSecondSignalEndsAtOnce: a request that never ends is waited for; nobody who signals twice is.
func TestDevSecondSignalEndsAtOnce(t *testing.T) {
	t.Parallel()
	p := startDev(t, filepath.Join(t.TempDir(), "data"))
	body, writer := io.Pipe()
	defer writer.Close()
	go func() {
		r, err := http.Post(p.endpoint+"/v1/usage", "application/x-ndjson", body)
		if err == nil {
			r.Body.Close()
		}
	}()
	if _, err := io.Copy(writer, strings.NewReader(strings.Repeat(strings.Repeat(" ", 1<<16)+"\n", 256))); err != nil { // more than fits on the way: it is being read
		t.Fatal(err)
	}
	if err := p.cmd.Process.Signal(os.Interrupt); err != nil {
		t.Fatal(err)
	}
	for p.ask("GET", "/v1/clock", "", "", &struct{}{}) == nil { // until it has heard the signal
	}
	_, err := p.end(os.Interrupt)
	if err == nil || !strings.Contains(err.Error(), "signal: interrupt") {
		t.Errorf("error %v", err)
	}
}

// minutes are 50 lines of one unit, one a minute before now.
func minutes(now time.Time) string {
	var b strings.Builder
	for i := range 50 {
		fmt.Fprintf(&b, "{\"licenseArn\": %q, \"customerAWSAccountId\": \"111122223333\", \"dimension\": \"api_calls\", \"timestamp\": %q, \"quantity\": 1}\n",
			exampleLicense, now.Add(-time.Duration(i)*time.Minute).Format("2006-01-02T15:04:05"))
	}
	return b.String()
}

// TestDevOutlivesItsKills: the process is killed again and again, while usage comes in and the clock is moved. The clock never falls
// behind what a stage has acted at, what was acknowledged is there once, and both ledgers agree in the end.
func TestDevOutlivesItsKills(t *testing.T) {
	t.Parallel()
	const kills = 8
	random := rand.New(rand.NewPCG(1, kills))
	data := filepath.Join(t.TempDir(), "data")
	latest := time.Date(2026, 3, 10, 15, 20, 0, 0, time.UTC) // time that was seen
	batch, acknowledged, written := "", 0, int64(0)
	for i := range kills + 1 {
		var args []string
		if i == 0 {
			args = []string{"--at", latest.Format(time.RFC3339)}
		}
		p := startDev(t, data, args...)
		var clock dev.Clock
		if err := p.ask("GET", "/v1/clock", "", "", &clock); err != nil || clock.Now.Before(latest) {
			t.Fatalf("the clock shows %v after %v: %v", clock.Now, latest, err)
		}
		if i > 0 { // what the last process did not acknowledge is sent again, and what it did too
			var taken dev.Taken
			if err := p.ask("POST", "/v1/usage", fmt.Sprint("batch", i-1), batch, &taken); err != nil || taken.Written+taken.Late < acknowledged {
				t.Errorf("batch %d: %+v, %d were acknowledged: %v", i-1, taken, acknowledged, err)
			}
			written += int64(taken.Written + taken.Late)
		}
		if i == kills {
			wantBooks(t, p, written)
			return
		}
		time.AfterFunc(time.Duration(random.IntN(200))*time.Millisecond, func() { _ = p.cmd.Process.Kill() })
		var taken dev.Taken
		batch, acknowledged = minutes(clock.Now), 0
		if p.ask("POST", "/v1/usage", fmt.Sprint("batch", i), batch, &taken) == nil {
			acknowledged = taken.Written + taken.Late
		}
		for p.ask("POST", "/v1/clock", "", `{"advance": "150m"}`, &struct{}{}) == nil {
		}
		log, _ := p.end(syscall.SIGKILL)
		for line := range strings.Lines(log) {
			if at, err := time.Parse("2006-01-02 15:04:05", "2026-"+line[:min(14, len(line))]); err == nil && at.After(latest) {
				latest = at
			}
		}
	}
}

// wantBooks plays everything to its end and looks at the books.
func wantBooks(t *testing.T, p *devProcess, written int64) {
	t.Helper()
	if err := p.ask("POST", "/v1/clock", "", `{"advance": "3h"}`, &struct{}{}); err != nil {
		t.Error(err)
	}
	var books ledger.Document
	if err := p.ask("GET", "/v1/ledger", "", "", &books); err != nil {
		t.Fatal(err)
	}
	if !books.Balanced || !books.CrossCheck.Equal || books.CrossCheck.Ours != books.CrossCheck.Theirs || books.Written.Units != written {
		t.Errorf("written %+v, want %d; places %+v, compared %+v", books.Written, written, books.Places, books.CrossCheck)
	}
	if billed := books.Places[ledger.Billed].Units; billed == 0 || books.Places[ledger.InFlight].Units != 0 {
		t.Errorf("places %+v", books.Places)
	}
	if _, err := p.end(os.Interrupt); err != nil {
		t.Error(err)
	}
}
