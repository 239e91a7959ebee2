package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"os"
	"os/exec"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/awsmp/metering/internal/folder"
	"github.com/awsmp/metering/internal/ledger"
	"github.com/awsmp/metering/internal/metering"
	"github.com/awsmp/metering/internal/store/sqlite"
)

var killSeed = flag.Uint64("kill.seed", 0, "seed of TestKilledNode, as a failing run prints it; 0 draws one")

// kills is how often the node is killed.
const kills = 50

// TestKilledNode kills a node with SIGKILL at random moments, again and again on one folder, while usage keeps arriving and the clock moves on
// through the end of a month. In the end its books are those of a node that was left in peace, group by group, and equal to the
// Marketplace's own.
func TestKilledNode(t *testing.T) {
	t.Parallel()
	seed := *killSeed
	if seed == 0 {
		seed = rand.Uint64()
	}
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("to have the same usage and the same kills: go test ./cmd/awsmp -run TestKilledNode -args -kill.seed=%d", seed)
		}
	})
	hours := usageOfHours(rand.New(rand.NewPCG(seed, 1)))

	calm := newKilled(t, nil)
	calm.play(hours)
	rough := newKilled(t, rand.New(rand.NewPCG(seed, 2)))
	rough.play(hours)
	if rough.killed != kills {
		t.Errorf("the node was killed %d times, want %d", rough.killed, kills)
	}
	want, got := calm.books(), rough.books()
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("the books of the killed node differ (-undisturbed +killed):\n%s", diff)
	}
	if len(got) < 100 {
		t.Errorf("only %d groups were metered", len(got))
	}
	t.Logf("killed %d times, %d of them while it started and %d at work; %d requests, %d of them sent again; %d groups", rough.killed, rough.early, rough.atWork, rough.requests, rough.again, len(got))
	if rough.atWork < kills/4 {
		t.Errorf("only %d of %d kills met the node at work", rough.atWork, kills)
	}
}

// request is usage that is sent under one key until it is answered.
type request struct{ key, body string }

const killedHours = 30

var killedStart = time.Date(2026, 3, 30, 22, 0, 0, 0, time.UTC) // 30 hours later is 04:00 on the 1st

// usageOfHours is what is sent in each hour: usage of the hour itself, malformed lines, and usage of an hour that is closed by then.
func usageOfHours(random *rand.Rand) [][]request {
	hours := make([][]request, killedHours)
	for h := range hours {
		for r := range 4 {
			var body strings.Builder
			for range 30 + random.IntN(60) {
				at := killedStart.Add(time.Duration(h)*time.Hour + time.Duration(random.IntN(600))*time.Second)
				if h >= 3 && random.IntN(10) == 0 {
					at = at.Add(-3 * time.Hour) // refused: its hour is committed
				}
				dimension := fmt.Sprintf("dimension_%d", random.IntN(3))
				line := map[string]any{
					metering.AttrLicense: fmt.Sprintf("arn:aws:license-manager::111122223333:license:l-%032d", random.IntN(3)), metering.AttrAccount: "444455556666",
					metering.AttrDimension: dimension, metering.AttrTimestamp: metering.Second(at.Unix()).String(), metering.AttrQuantity: random.IntN(100),
				}
				switch quantity := line[metering.AttrQuantity].(int); {
				case random.IntN(40) == 0:
					line[metering.AttrQuantity] = "many"
				case dimension == "dimension_2" && quantity > 0:
					line[metering.AttrAllocations] = []any{map[string]any{"AllocatedUsageQuantity": quantity, "Tags": []any{map[string]any{"Key": "team", "Value": fmt.Sprint(random.IntN(3))}}}}
				}
				text, _ := json.Marshal(line)
				body.Write(append(text, '\n'))
			}
			hours[h] = append(hours[h], request{fmt.Sprintf("hour-%d-%d", h, r), body.String()})
		}
	}
	return hours
}

// killedNode is a node as its callers know it: by its address, which changes with every start.
type killedNode struct {
	t      *testing.T
	folder string
	random *rand.Rand // nil: nothing is killed
	client *http.Client

	mu       sync.Mutex
	address  string
	cmd      *exec.Cmd
	stderr   bytes.Buffer
	killed   int
	early    int // of those, before it had answered
	atWork   int // of those, while it took usage or moved its clock
	requests int
	again    int
}

func newKilled(t *testing.T, random *rand.Rand) *killedNode {
	n := &killedNode{t: t, folder: t.TempDir(), random: random, client: &http.Client{Timeout: 2 * time.Minute}}
	t.Cleanup(n.client.CloseIdleConnections)
	return n
}

// start starts the node; where it is killed before it has said where it is, it is started again.
func (n *killedNode) start() {
	for {
		args := []string{"awsmp", "dev", "--data", n.folder, "--addr", "127.0.0.1:0"}
		if !n.clockSet() { // nor is it where a start was killed between the first byte of the store and its clock
			args = append(args, "--at", killedStart.Add(10*time.Minute).Format(time.RFC3339))
		}
		self, err := os.Executable()
		if err != nil {
			n.t.Fatal(err)
		}
		cmd := &exec.Cmd{Path: self, Args: args, Stderr: &n.stderr}
		out, err := cmd.StdoutPipe()
		if err == nil {
			err = cmd.Start()
		}
		if err != nil {
			n.t.Fatal(err)
		}
		early := n.random != nil && n.killed < kills && n.random.IntN(5) == 0
		if early {
			delay := time.Duration(n.random.IntN(200)) * time.Millisecond
			time.AfterFunc(delay, func() { _ = cmd.Process.Kill() })
		}
		address := make(chan string, 1)
		go func() {
			var seen bytes.Buffer
			piece := make([]byte, 4096)
			for {
				k, err := out.Read(piece)
				if seen.Len() < 4096 {
					seen.Write(piece[:k])
					if _, rest, ok := strings.Cut(seen.String(), "Node: "); ok {
						if line, _, whole := strings.Cut(rest, "\n"); whole {
							select {
							case address <- line:
							default:
							}
						}
					}
				}
				if err != nil {
					close(address)
					return
				}
			}
		}()
		found, ok := <-address
		if early {
			_ = cmd.Process.Kill()
			_ = cmd.Wait()
			n.killed, n.early = n.killed+1, n.early+1
			continue
		}
		if !ok {
			n.t.Fatalf("the node did not start: %v\n%s", cmd.Wait(), n.stderr.String())
		}
		n.mu.Lock()
		n.address, n.cmd = found, cmd
		n.mu.Unlock()
		return
	}
}

// call sends until it is answered with a status below 500.
func (n *killedNode) call(method, path, key, body string) []byte {
	for try := 0; ; try++ {
		n.mu.Lock()
		address := n.address
		n.requests++
		n.again += min(try, 1)
		n.mu.Unlock()
		r, err := http.NewRequestWithContext(n.t.Context(), method, address+path, strings.NewReader(body))
		if err != nil {
			n.t.Error(err)
			return nil
		}
		r.Header.Set("Content-Type", "application/x-ndjson")
		if key != "" {
			r.Header.Set("Idempotency-Key", key)
		}
		response, err := n.client.Do(r)
		if err == nil {
			text, readErr := io.ReadAll(response.Body)
			_ = response.Body.Close()
			if readErr == nil && response.StatusCode < 500 {
				moved := try > 0 && response.StatusCode == http.StatusConflict // the clock was there already, and the answer lost
				if response.StatusCode >= 400 && response.StatusCode != http.StatusUnprocessableEntity && !moved {
					n.t.Errorf("%s %s: %s: %s", method, path, response.Status, text)
				}
				return text
			}
		}
		if n.t.Context().Err() != nil {
			return nil
		}
		time.Sleep(5 * time.Millisecond) // the node is being started again
	}
}

// play sends the usage of each hour and then moves the clock past its end, and in the end past all that waits.
func (n *killedNode) play(hours [][]request) {
	n.start()
	for h, requests := range hours {
		n.during(n.due(len(hours)-h), func() {
			var all sync.WaitGroup
			answers := make([][]byte, len(requests))
			for i, r := range requests {
				all.Go(func() { answers[i] = n.call(http.MethodPost, "/v1/usage", r.key, r.body) })
			}
			all.Wait()
			n.moveTo(killedStart.Add(time.Duration(h+1)*time.Hour + 10*time.Minute))
			// By now the hour is committed. A request that comes again hears what became of it at first.
			if again := n.call(http.MethodPost, "/v1/usage", requests[0].key, requests[0].body); !bytes.Equal(again, answers[0]) {
				n.t.Errorf("hour %d: the same request is answered otherwise after the commit: %s\nat first: %s", h, again, answers[0])
			}
		})
	}
	n.during(n.due(1), func() { n.moveTo(killedStart.Add((killedHours + 34) * time.Hour)) })
	var document ledger.Document
	if err := json.Unmarshal(n.call(http.MethodGet, "/v1/ledger", "", ""), &document); err != nil {
		n.t.Fatal(err)
	}
	if c := document.CrossCheck; !document.Balanced || c == nil || !c.Equal || len(c.Differences)+len(c.Explained) > 0 || c.Ours == 0 || document.Places[ledger.InFlight].Units != 0 {
		n.t.Errorf("the books are not in order: balanced %v, in flight %d, compared %+v", document.Balanced, document.Places[ledger.InFlight].Units, c)
	}
	if err := n.cmd.Process.Signal(os.Interrupt); err != nil {
		n.t.Fatal(err)
	}
	if err := n.cmd.Wait(); err != nil {
		n.t.Errorf("the node ended with %v\n%s", err, n.stderr.String())
	}
}

func (n *killedNode) moveTo(t time.Time) {
	n.call(http.MethodPost, "/v1/clock", "", fmt.Sprintf(`{"to": %q}`, t.Format(time.RFC3339)))
}

// due is how often the node is killed in one of so many steps, so that all kills have happened in the end.
func (n *killedNode) due(steps int) int {
	if n.random == nil {
		return 0
	}
	left := kills - n.killed
	return min(left, (left+steps-1)/steps+n.random.IntN(2))
}

// during kills the node so many times while do goes on; a kill that comes after do had ended hits the node at rest.
func (n *killedNode) during(times int, do func()) {
	done := make(chan struct{})
	go func() {
		defer close(done)
		do()
	}()
	for range times {
		if n.killed == kills { // a start was killed meanwhile
			break
		}
		time.Sleep(time.Duration(n.random.IntN(60)) * time.Millisecond)
		select {
		case <-done:
		default:
			n.atWork++
		}
		_ = n.cmd.Process.Kill()
		var exit *exec.ExitError
		if err := n.cmd.Wait(); !errors.As(err, &exit) || exit.ExitCode() != -1 {
			n.t.Errorf("the node ended by itself: %v\n%s", err, n.stderr.String())
		}
		n.killed++
		n.start()
	}
	<-done
}

// store opens the store of a node that does not run.
func (n *killedNode) store() *sqlite.Store {
	s, err := sqlite.Open(n.t.Context(), folder.Store(n.folder), sqlite.Options{})
	if err != nil {
		n.t.Fatal(err)
	}
	return s
}

// clockSet reports whether a start came as far as setting the clock.
func (n *killedNode) clockSet() bool {
	if _, err := os.Stat(folder.Store(n.folder)); err != nil {
		return false // the node makes it, not this test
	}
	s := n.store()
	defer s.Close()
	_, set, err := folder.Offset(n.t.Context(), s)
	if err != nil {
		n.t.Fatal(err)
	}
	return set
}

// books are the store's groups, each with what was written and where it is.
func (n *killedNode) books() map[metering.Group]map[ledger.Cause]ledger.Amount {
	ctx := context.WithoutCancel(n.t.Context())
	s := n.store()
	defer s.Close()
	groups := make(map[metering.Group]map[ledger.Cause]ledger.Amount)
	for license, err := range s.Licenses(ctx) {
		if err != nil {
			n.t.Fatal(err)
		}
		for row, err := range s.LicenseRows(ctx, license) {
			if err != nil {
				n.t.Fatal(err)
			}
			key, reason := metering.ParseRowKey(row.SortKey)
			g := key.Group(license)
			if reason != "" || groups[g] != nil {
				continue
			}
			b, err := ledger.Read(ctx, s, g)
			if err != nil {
				n.t.Fatal(err)
			}
			if groups[g] = b.Places; !b.Balanced() {
				n.t.Errorf("%s does not balance: %v", g.RecordKey(), b.Findings)
			}
		}
	}
	return groups
}
