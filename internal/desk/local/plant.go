package local

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/awsmp/metering/internal/desk"
	"github.com/awsmp/metering/internal/dev"
	"github.com/awsmp/metering/internal/metering"
)

const (
	// findWithin is how long a node has to say that it is there, and answerWithin how long for anything else: one that hangs must not hold
	// up an operator.
	findWithin, answerWithin = 2 * time.Second, 30 * time.Second
)

// plant is a node that runs on the folder, asked over HTTP.
type plant struct {
	address string
	client  *http.Client
}

// findPlant is the node that a folder names, where it answers; else nil. Silent is its address where something is there that says nothing.
func findPlant(ctx context.Context, dir string) (found *plant, silent string, err error) {
	owner, err := dev.OwnerOf(dir)
	if err != nil {
		return nil, "", err
	}
	if owner.Node == "" {
		return nil, "", nil
	}
	p := &plant{owner.Node, &http.Client{Timeout: findWithin}}
	if _, err := p.look(ctx); err != nil {
		if isTimeout(err) {
			silent = p.address
		} // else it died without a word, or another program has its address now
		return nil, silent, ctx.Err()
	}
	p.client = &http.Client{Timeout: answerWithin}
	return p, "", nil
}

func isTimeout(err error) bool {
	var late interface{ Timeout() bool }
	return errors.As(err, &late) && late.Timeout()
}

// look is the node's brief status.
func (p *plant) look(ctx context.Context) (dev.Status, error) {
	return ask[dev.Status](ctx, p, http.MethodGet, "/v1/status?brief=true", nil)
}

// Machine is what the node says of itself.
func (p *plant) Machine(ctx context.Context) (desk.Machine, error) {
	s, err := p.look(ctx)
	m := desk.Machine{Address: p.address, Offset: s.Offset, Started: s.Started, Marketplace: s.Marketplace}
	for _, metric := range s.Metrics {
		m.Metrics = append(m.Metrics, desk.MetricSum{Name: metric.Name, Items: metric.Items, Units: metric.Units})
	}
	if s.Simulator != nil {
		m.Simulator = &desk.Simulator{Hours: s.Simulator.Hours, Units: s.Simulator.Units, Calls: s.Simulator.Calls}
	}
	return m, err
}

// The queues as awsmp calls them, and as the node does.
var queues = []struct{ name, node string }{{"work", "work"}, {"deprovision-work", "deprovision"}, {"cleanup", "cleanup"}}

// dead is the end of a dead-letter queue's name.
const dead = "-dlq"

// Queues are the node's queues, each with its dead letters behind it.
func (p *plant) Queues(ctx context.Context) ([]desk.Queue, error) {
	s, err := p.look(ctx)
	if err != nil {
		return nil, err
	}
	var list []desk.Queue
	for _, q := range queues {
		i := slices.IndexFunc(s.Queues, func(of dev.Queue) bool { return of.Name == q.node })
		if i < 0 {
			continue
		}
		of := s.Queues[i]
		list = append(list, desk.Queue{Name: q.name, Visible: of.Visible, InFlight: of.InFlight, Oldest: of.OldestAge},
			desk.Queue{Name: q.name + dead, Dead: true, Visible: of.Failed})
	}
	return list, nil
}

// Stages are the node's stages.
func (p *plant) Stages(ctx context.Context) ([]desk.Stage, error) {
	s, err := p.look(ctx)
	var list []desk.Stage
	for _, v := range s.Stages {
		list = append(list, desk.Stage{Name: v.Name, LastAt: v.LastAt, Last: v.Last, Next: v.Next, Runs: v.Runs, Failures: v.Failures, Error: v.Error})
	}
	return list, err
}

// Ringing is empty: a node has no alarms.
func (p *plant) Ringing(context.Context) ([]desk.Alarm, error) { return nil, nil }

// Counted is what the node has counted since its start, by the hour of its clock in which it did.
func (p *plant) Counted(ctx context.Context, from, to time.Time) ([]desk.Count, error) {
	answer, err := ask[dev.CountedHours](ctx, p, http.MethodGet, "/v1/counted", nil)
	if err != nil {
		return nil, err
	}
	var list []desk.Count
	for _, c := range answer.Counted {
		hour, err := metering.ParseHour(c.Hour)
		if err != nil {
			return nil, fmt.Errorf("read the node's answer: %w", err)
		}
		if hour.End().After(from) && hour.Start().Before(to) {
			list = append(list, desk.Count{Hour: hour, Metric: metering.Metric(c.Metric), Items: c.Items, Units: c.Units})
		}
	}
	return list, nil
}

// Troubles is empty: what is wrong with a node is said by its stages.
func (p *plant) Troubles(context.Context) ([]desk.Finding, error) { return nil, nil }

// Letters are up to limit dead letters of a queue, which stay where they are.
func (p *plant) Letters(ctx context.Context, queue string, limit int) ([]desk.Letter, error) {
	name, err := nodeQueue(queue)
	if err != nil {
		return nil, err
	}
	path := "/v1/dead-letters?" + url.Values{"queue": {name}, "limit": {strconv.Itoa(min(max(limit, 1), 1000))}}.Encode()
	answer, err := ask[dev.Letters](ctx, p, http.MethodGet, path, nil)
	var list []desk.Letter
	for _, l := range answer.Letters {
		list = append(list, desk.Letter{ID: l.ID, Queue: queue, SentAt: l.SentAt, Body: l.Body})
	}
	return list, err
}

// Redrive brings all dead letters of a queue back into it, in one request.
func (p *plant) Redrive(ctx context.Context, queue string, moved func(n int)) (int, error) {
	name, err := nodeQueue(queue)
	if err != nil {
		return 0, err
	}
	answer, err := ask[dev.Redriven](ctx, p, http.MethodPost, "/v1/dead-letters/redrive", dev.Redrive{Queue: name})
	if err == nil && moved != nil && answer.Moved > 0 {
		moved(answer.Moved)
	}
	return answer.Moved, err
}

func nodeQueue(queue string) (string, error) {
	for _, q := range queues {
		if queue == q.name+dead {
			return q.node, nil
		}
	}
	return "", fmt.Errorf("there is no dead-letter queue %q on this machine", queue)
}

func ask[T any](ctx context.Context, p *plant, method, path string, body any) (answer T, err error) {
	var in io.Reader
	if body != nil {
		text, err := json.Marshal(body)
		if err != nil {
			return answer, err
		}
		in = bytes.NewReader(text)
	}
	request, err := http.NewRequestWithContext(ctx, method, p.address+path, in)
	if err != nil {
		return answer, fmt.Errorf("ask the node: %w", err)
	}
	request.Header.Set("Content-Type", "application/json")
	response, err := p.client.Do(request)
	if err != nil {
		return answer, p.unanswered(ctx, "ask the node", err)
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	if err != nil {
		return answer, p.unanswered(ctx, "read the node's answer", err)
	}
	if response.StatusCode == http.StatusOK {
		if err := json.Unmarshal(text, &answer); err != nil {
			return answer, fmt.Errorf("read the node's answer: %w", err)
		}
		return answer, nil
	}
	var problem dev.Problem
	switch {
	case json.Unmarshal(text, &problem) != nil || problem.Error == "":
		return answer, fmt.Errorf("what answers at %s is no node: %s", p.address, response.Status)
	case response.StatusCode == http.StatusNotFound && strings.HasSuffix(problem.Error, " is not served here"):
		return answer, errors.New("the node is of an older release: stop it, and start awsmp dev again")
	}
	return answer, fmt.Errorf("ask the node: %s", problem.Error)
}

// unanswered is why a question has no answer.
func (p *plant) unanswered(ctx context.Context, what string, err error) error {
	if ctx.Err() == nil && isTimeout(err) {
		return fmt.Errorf("%s: the one at %s does not answer within %s: %w", what, p.address, p.client.Timeout, err)
	}
	return fmt.Errorf("%s: %w", what, err)
}
