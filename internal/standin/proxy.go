package standin

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
)

// Proxy stands before a service: it records what is asked and answered, and commits faults on demand.
type Proxy struct {
	URL string // what a client takes as its endpoint

	target string
	ended  chan struct{} // closed at the test's end: nothing is held any longer

	mu        sync.Mutex
	calls     []*Call
	intercept func(Call) Action
}

// Action is what a Proxy does with a call. The zero Action passes it on.
type Action struct {
	Hold   <-chan struct{} // first wait until it is closed; a caller that leaves meanwhile takes its call along
	Status int             // answer with this, Body and Header instead of passing the call on
	Body   string
	Header http.Header
	Cut    bool // close the connection, and pass nothing on: the call had no effect
	Drop   bool // pass the call on, then close the connection instead of replying: it had its effect
}

// Exception is an answer in AWS's JSON protocols, such as
// Exception(400, "ProvisionedThroughputExceededException", "slow down").
func Exception(status int, name, message string) Action {
	return Action{
		Status: status,
		Body:   fmt.Sprintf(`{"__type":%q,"message":%q}`, name, message),
		Header: http.Header{"Content-Type": {"application/x-amz-json-1.0"}},
	}
}

// NewProxy starts a proxy before the target, a base URL without a path. It ends with the test.
func NewProxy(t testing.TB, target string) *Proxy {
	t.Helper()
	p := &Proxy{target: strings.TrimSuffix(target, "/"), ended: make(chan struct{})}
	server := httptest.NewServer(p)
	p.URL = server.URL
	t.Cleanup(func() {
		close(p.ended)
		server.Close()
	})
	return p
}

// Intercept asks f about each call from now on, one at a time and before it is passed on. Nil passes all.
func (p *Proxy) Intercept(f func(Call) Action) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.intercept = f
}

// Calls returns what was asked since the start or the last Forget, in order of arrival. A call that is under way has no status.
func (p *Proxy) Calls() []Call {
	p.mu.Lock()
	defer p.mu.Unlock()
	calls := make([]Call, len(p.calls))
	for i, c := range p.calls {
		calls[i] = *c
	}
	return calls
}

// Count counts the calls of an operation, such as UpdateItem, on a resource. An empty resource stands for any.
func (p *Proxy) Count(operation, resource string) int {
	return len(slices.DeleteFunc(p.Calls(), func(c Call) bool {
		return c.Operation != operation || resource != "" && c.Resource != resource
	}))
}

// Forget empties the list of calls.
func (p *Proxy) Forget() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.calls = nil
}

// ServeHTTP serves the calls.
func (p *Proxy) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		panic(http.ErrAbortHandler) // the caller left
	}
	call, action := p.arrive(readCall(r, body))
	if action.Hold != nil {
		select {
		case <-action.Hold:
		case <-r.Context().Done():
			panic(http.ErrAbortHandler)
		case <-p.ended:
			panic(http.ErrAbortHandler)
		}
	}
	if action.Cut {
		panic(http.ErrAbortHandler)
	}
	status, header, answer := action.Status, action.Header, []byte(action.Body)
	if status == 0 {
		if status, header, answer, err = p.pass(r, body); err != nil {
			http.Error(w, err.Error(), http.StatusBadGateway)
			return
		}
	}
	p.mu.Lock()
	call.answered(status, header, answer)
	call.Lost = action.Drop
	p.mu.Unlock()
	if action.Drop {
		panic(http.ErrAbortHandler)
	}
	for name, values := range header {
		w.Header()[http.CanonicalHeaderKey(name)] = values
	}
	w.WriteHeader(status)
	_, _ = w.Write(answer)
}

func (p *Proxy) arrive(c Call) (*Call, Action) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.calls = append(p.calls, &c)
	if p.intercept == nil {
		return &c, Action{}
	}
	return &c, p.intercept(c)
}

// pass sends a call to the target under the name by which it was called, so that addresses in answers are the proxy's. A service
// finishes what a caller no longer waits for, and so does this; but a receiver that left must not take messages along.
func (p *Proxy) pass(r *http.Request, body []byte) (int, http.Header, []byte, error) {
	ctx := r.Context()
	if !strings.HasSuffix(r.Header.Get("X-Amz-Target"), ".ReceiveMessage") {
		ctx = context.WithoutCancel(ctx)
	}
	out, err := http.NewRequestWithContext(ctx, r.Method, p.target+r.URL.RequestURI(), bytes.NewReader(body))
	if err != nil {
		return 0, nil, nil, fmt.Errorf("pass on %s: %w", r.URL.Path, err)
	}
	out.Header, out.Host = r.Header.Clone(), r.Host
	resp, err := transport.RoundTrip(out)
	if err != nil {
		return 0, nil, nil, fmt.Errorf("pass on %s: %w", r.URL.Path, err)
	}
	defer func() { _ = resp.Body.Close() }()
	answer, err := io.ReadAll(resp.Body)
	if err != nil {
		return 0, nil, nil, fmt.Errorf("read the answer to %s: %w", r.URL.Path, err)
	}
	header := resp.Header.Clone()
	for _, hop := range []string{"Connection", "Keep-Alive", "Transfer-Encoding"} {
		header.Del(hop)
	}
	return resp.StatusCode, header, answer, nil
}
