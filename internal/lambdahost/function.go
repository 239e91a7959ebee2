package lambdahost

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"time"
)

// Options say what is run, and how.
type Options struct {
	Binary  string   // path of the bootstrap
	Handler string   // _HANDLER: what the binary is to be
	Name    string   // of the function; empty means Handler
	Env     []string // KEY=value, beside what Lambda sets; nothing is inherited
	// Timeout is how long an invocation may take before its process is killed; 0 means 3 s, as on AWS.
	Timeout time.Duration
	// InitTimeout is how long a process may take to ask for its first invocation; 0 means 10 s, as on AWS.
	InitTimeout time.Duration
	// Concurrency is how many processes run at once at most; 0 means 1. An invocation beyond it waits for its turn, where AWS
	// would refuse it.
	Concurrency int
	// MemoryMB is told to the process and limits nothing; 0 means 512.
	MemoryMB int
}

func (o Options) withDefaults() Options {
	if o.Name == "" {
		o.Name = o.Handler
	}
	if o.Timeout <= 0 {
		o.Timeout = 3 * time.Second
	}
	if o.InitTimeout <= 0 {
		o.InitTimeout = 10 * time.Second
	}
	o.Concurrency = max(1, o.Concurrency)
	if o.MemoryMB <= 0 {
		o.MemoryMB = 512
	}
	return o
}

// Function runs one binary under one handler name. Its processes start when an invocation finds no idle one, are used again
// and end with the test.
type Function struct {
	options Options
	slots   chan struct{}
	logs    *output

	mu      sync.Mutex
	idle    []*process
	live    map[*process]struct{}
	stopped bool
	serial  int
	user    time.Duration
	system  time.Duration
	colds   []time.Duration
}

// Start makes a function; its first process starts with the first invocation. When the test failed, its log holds the last
// lines that the processes wrote.
func Start(t testing.TB, o Options) *Function {
	t.Helper()
	o = o.withDefaults()
	file, err := os.OpenFile(filepath.Join(t.TempDir(), "log"), os.O_CREATE|os.O_RDWR|os.O_APPEND, 0o600)
	if err != nil {
		t.Fatal(err)
	}
	f := &Function{options: o, slots: make(chan struct{}, o.Concurrency), live: make(map[*process]struct{}), logs: &output{file: file}}
	t.Cleanup(func() {
		f.mu.Lock()
		f.stopped = true
		f.mu.Unlock()
		f.Kill()
		f.logs.close()
		if t.Failed() {
			t.Logf("last lines of %s:\n%s", o.Name, f.logs.tail(8<<10))
		}
	})
	return f
}

// Build compiles the command in the folder pkg (relative to the test's own) with the flags of the shipped artifact, for this
// machine instead of arm64, and returns the binary's path.
func Build(t testing.TB, pkg string) string {
	t.Helper()
	binary := filepath.Join(t.TempDir(), "bootstrap")
	out, err := exec.Command("go", "build", "-tags", "lambda.norpc", "-trimpath", "-ldflags", "-s -w -buildid=", "-o", binary, pkg).CombinedOutput()
	if err != nil {
		t.Fatalf("build %s: %v\n%s", pkg, err, out)
	}
	return binary
}

// Invoke hands an event to a process and returns its answer. It returns when the process is ready for the next event or gone,
// as Lambda does. An invocation that failed returns a *Failure; a process that answered an error is used again, one that died
// is replaced at the next invocation. Where ctx ends first the process is killed and ctx's error returned.
func (f *Function) Invoke(ctx context.Context, payload []byte) ([]byte, error) {
	select {
	case f.slots <- struct{}{}:
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	defer func() { <-f.slots }()
	p, err := f.take()
	if err != nil {
		return nil, err
	}
	answer, err := p.invoke(ctx, payload)
	f.release(p)
	return answer, err
}

// take returns an idle process, or starts one.
func (f *Function) take() (*process, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for len(f.idle) > 0 {
		p := f.idle[len(f.idle)-1]
		f.idle = f.idle[:len(f.idle)-1]
		if !p.gone() {
			return p, nil
		}
	}
	if f.stopped {
		return nil, &Failure{Kind: Stopped, Function: f.options.Name}
	}
	p, err := start(f)
	if err != nil {
		return nil, err
	}
	f.live[p] = struct{}{}
	return p, nil
}

func (f *Function) release(p *process) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if !p.gone() {
		f.idle = append(f.idle, p)
	}
}

// ended counts a process that is gone.
func (f *Function) ended(p *process, user, system time.Duration) {
	f.mu.Lock()
	defer f.mu.Unlock()
	delete(f.live, p)
	f.user, f.system = f.user+user, f.system+system
}

// Kill ends all processes at once, as a crash does, and returns when they are gone. Invocations that were under way fail; the
// next one starts a process anew.
func (f *Function) Kill() {
	f.mu.Lock()
	list := make([]*process, 0, len(f.live))
	for p := range f.live {
		list = append(list, p)
	}
	f.mu.Unlock()
	for _, p := range list {
		p.kill()
	}
}

// Logs is what the processes wrote to standard output and standard error, one stream as in CloudWatch Logs.
func (f *Function) Logs() string { return f.logs.tail(-1) }

// Usage is the user and system time of all processes that have ended: Kill the function first to count all.
func (f *Function) Usage() (user, system time.Duration) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.user, f.system
}

// ColdStarts are the times from the start of each process to its first request for an event.
func (f *Function) ColdStarts() []time.Duration {
	f.mu.Lock()
	defer f.mu.Unlock()
	return slices.Clone(f.colds)
}

func (f *Function) coldStart(d time.Duration) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.colds = append(f.colds, d)
}

// output is what several processes write, straight into a file: what one wrote before its answer is there when the answer is. Through a pipe it
// could come later.
type output struct {
	mu   sync.Mutex
	file *os.File // nil when it is closed
	text []byte   // all of it, when it is closed
}

// tail is the last n bytes; all with n < 0.
func (o *output) tail(n int) string {
	o.mu.Lock()
	defer o.mu.Unlock()
	b := o.all()
	if n >= 0 && len(b) > n {
		b = b[len(b)-n:]
	}
	return string(b)
}

func (o *output) all() []byte {
	if o.file == nil {
		return o.text
	}
	b, err := os.ReadFile(o.file.Name())
	if err != nil {
		return fmt.Appendf(nil, "the log cannot be read: %v", err)
	}
	return b
}

// close keeps what was written, for those who ask when the file is gone.
func (o *output) close() {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.text = o.all()
	_ = o.file.Close()
	o.file = nil
}
