package lambdahost

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"strconv"
	"sync"
	"time"
)

// Runtime API, AWS Lambda developer guide, "Using the Lambda runtime API for custom runtimes".
const (
	apiRoot        = "/2018-06-01/runtime/"
	headerID       = "Lambda-Runtime-Aws-Request-Id"
	headerDeadline = "Lambda-Runtime-Deadline-Ms"
	headerARN      = "Lambda-Runtime-Invoked-Function-Arn"
	headerTrace    = "Lambda-Runtime-Trace-Id"
)

const (
	region  = "us-east-1"
	account = "111122223333"
)

// process is one execution environment: a process and the Runtime API server that only it talks to.
type process struct {
	options Options
	cmd     *exec.Cmd
	server  *http.Server
	started time.Time
	number  int
	invoked int

	ready  chan struct{}     // filled whenever the process asks for an event
	events chan *event       // handed to the process that asked
	broken chan []byte       // its init error
	exited chan struct{}     // closed when the process is gone and counted
	cold   func()            // counts the cold start, once
	once   sync.Once         // of kill
	mu     sync.Mutex        // guards open
	open   map[string]*event // the event that is not answered yet
}

// event is one invocation under way.
type event struct {
	id       string
	payload  []byte
	deadline time.Time
	answer   chan answer
}

type answer struct {
	body   []byte
	failed bool
}

// start runs the binary. Each process gets a Runtime API of its own port, so that processes are told apart.
func start(f *Function) (*process, error) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, fmt.Errorf("start %s: %w", f.options.Name, err)
	}
	f.serial++
	p := &process{
		options: f.options, number: f.serial, started: time.Now(),
		ready: make(chan struct{}, 1), events: make(chan *event), broken: make(chan []byte, 1),
		exited: make(chan struct{}), open: make(map[string]*event),
	}
	p.cold = sync.OnceFunc(func() { f.coldStart(time.Since(p.started)) })
	p.server = &http.Server{Handler: p.api()}
	p.cmd = exec.Command(f.options.Binary)
	p.cmd.Dir = os.TempDir()
	p.cmd.Env = p.environment(listener.Addr().String())
	p.cmd.Stdout, p.cmd.Stderr = f.logs.file, f.logs.file // the same file, so that lines keep their order
	if err := p.cmd.Start(); err != nil {
		_ = listener.Close()
		return nil, fmt.Errorf("start %s: %w", f.options.Name, err)
	}
	go func() { _ = p.server.Serve(listener) }() // ends with Close
	go func() {
		_ = p.cmd.Wait() // how it ended stands in ProcessState
		f.ended(p, p.cmd.ProcessState.UserTime(), p.cmd.ProcessState.SystemTime())
		_ = p.server.Close()
		close(p.exited)
	}()
	return p, nil
}

// environment is what Lambda sets (developer guide, "Defined runtime environment variables") and what the test adds.
func (p *process) environment(api string) []string {
	return append([]string{
		"_HANDLER=" + p.options.Handler,
		"AWS_LAMBDA_RUNTIME_API=" + api,
		"AWS_LAMBDA_FUNCTION_NAME=" + p.options.Name,
		"AWS_LAMBDA_FUNCTION_VERSION=$LATEST",
		"AWS_LAMBDA_FUNCTION_MEMORY_SIZE=" + strconv.Itoa(p.options.MemoryMB),
		"AWS_LAMBDA_INITIALIZATION_TYPE=on-demand",
		"AWS_LAMBDA_LOG_GROUP_NAME=/aws/lambda/" + p.options.Name,
		"AWS_LAMBDA_LOG_STREAM_NAME=[$LATEST]" + strconv.Itoa(p.number),
		"AWS_REGION=" + region,
		"AWS_DEFAULT_REGION=" + region,
		"AWS_ACCESS_KEY_ID=ASIAEXAMPLEEXAMPLE00",
		"AWS_SECRET_ACCESS_KEY=invented",
		"AWS_SESSION_TOKEN=invented",
		"LANG=en_US.UTF-8",
		"TZ=:UTC",
		"PATH=/usr/local/bin:/usr/bin:/bin",
	}, p.options.Env...)
}

func (p *process) api() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET "+apiRoot+"invocation/next", p.next)
	mux.HandleFunc("POST "+apiRoot+"invocation/{id}/response", func(w http.ResponseWriter, r *http.Request) { p.answered(w, r, false) })
	mux.HandleFunc("POST "+apiRoot+"invocation/{id}/error", func(w http.ResponseWriter, r *http.Request) { p.answered(w, r, true) })
	mux.HandleFunc("POST "+apiRoot+"init/error", func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			return
		}
		select {
		case p.broken <- body:
		default:
		}
		w.WriteHeader(http.StatusAccepted)
	})
	return mux
}

// next answers with an event as soon as there is one: a process waits here while it is idle.
func (p *process) next(w http.ResponseWriter, r *http.Request) {
	p.cold()
	p.asks()
	select {
	case e := <-p.events:
		h := w.Header()
		h.Set("Content-Type", "application/json")
		h.Set(headerID, e.id)
		h.Set(headerDeadline, strconv.FormatInt(e.deadline.UnixMilli(), 10))
		h.Set(headerARN, "arn:aws:lambda:"+region+":"+account+":function:"+p.options.Name)
		h.Set(headerTrace, fmt.Sprintf("Root=1-%08x-%024x;Sampled=0", p.number, p.invoked))
		_, _ = w.Write(e.payload) // a process that is gone fails its invocation elsewhere
	case <-r.Context().Done():
	}
}

// asks notes that the process waits for an event.
func (p *process) asks() {
	select {
	case p.ready <- struct{}{}:
	default:
	}
}

func (p *process) answered(w http.ResponseWriter, r *http.Request, failed bool) {
	p.mu.Lock()
	e := p.open[r.PathValue("id")]
	delete(p.open, r.PathValue("id"))
	p.mu.Unlock()
	if e == nil {
		http.Error(w, `{"errorType":"InvalidRequestID","errorMessage":"Invalid request ID"}`, http.StatusBadRequest)
		return
	}
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return // it died while it answered
	}
	e.answer <- answer{bytes.Clone(body), failed}
	w.WriteHeader(http.StatusAccepted)
}

// invoke runs one event: from the process being ready for it until it is ready for the next, or gone.
func (p *process) invoke(ctx context.Context, payload []byte) ([]byte, error) {
	if err := p.initialized(ctx); err != nil {
		return nil, err
	}
	p.invoked++
	e := &event{
		id:      fmt.Sprintf("00000000-0000-4000-%04d-%012d", p.number, p.invoked),
		payload: payload, deadline: time.Now().Add(p.options.Timeout), answer: make(chan answer, 1),
	}
	p.mu.Lock()
	p.open[e.id] = e
	p.mu.Unlock()
	timeout := time.NewTimer(p.options.Timeout)
	defer timeout.Stop()

	var got *answer
	hand, ready := p.events, (chan struct{})(nil)
	for {
		select {
		case hand <- e:
			hand = nil
		case a := <-e.answer:
			got, ready = &a, p.ready
		case <-ready:
			p.asks() // for the next invocation
			return p.result(*got)
		case <-p.exited:
			select {
			case a := <-e.answer: // it answered and then died
				got = &a
			default:
			}
			if got != nil {
				return p.result(*got)
			}
			return nil, p.failure(Died, "Runtime.ExitError", fmt.Sprintf("RequestId: %s Error: Runtime exited with error: %v", e.id, p.cmd.ProcessState))
		case <-timeout.C:
			p.kill()
			return nil, p.failure(TimedOut, "Sandbox.Timedout", fmt.Sprintf("RequestId: %s Error: Task timed out after %.2f seconds", e.id, p.options.Timeout.Seconds()))
		case <-ctx.Done():
			p.kill()
			return nil, ctx.Err()
		}
	}
}

// initialized waits until the process asks for an event.
func (p *process) initialized(ctx context.Context) error {
	timeout := time.NewTimer(p.options.InitTimeout)
	defer timeout.Stop()
	select {
	case <-p.ready:
		return nil
	case body := <-p.broken:
		p.kill()
		return &Failure{Kind: InitFailed, Function: p.options.Name, Payload: body}
	case <-p.exited:
		select {
		case body := <-p.broken:
			return &Failure{Kind: InitFailed, Function: p.options.Name, Payload: body}
		default:
		}
		return p.failure(Died, "Runtime.ExitError", fmt.Sprintf("Error: Runtime exited before its first invocation: %v", p.cmd.ProcessState))
	case <-timeout.C:
		p.kill()
		return p.failure(InitFailed, "Sandbox.Timedout", fmt.Sprintf("Error: no first invocation asked for within %v", p.options.InitTimeout))
	case <-ctx.Done():
		p.kill()
		return ctx.Err()
	}
}

func (p *process) result(a answer) ([]byte, error) {
	if a.failed {
		return nil, &Failure{Kind: Errored, Function: p.options.Name, Payload: a.body}
	}
	return a.body, nil
}

// kill ends the process and returns when it is gone.
func (p *process) kill() {
	p.once.Do(func() { _ = p.cmd.Process.Kill() }) // it may be gone already
	<-p.exited
}

func (p *process) gone() bool {
	select {
	case <-p.exited:
		return true
	default:
		return false
	}
}
