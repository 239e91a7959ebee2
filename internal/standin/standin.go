// Package standin starts programs that others wrote, for the tests: moto, dynalite and fauxqs in place of AWS services, and
// Chromium in place of a buyer's browser. docs/stand-ins.md says what each is taken for and what it gets wrong.
package standin

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"

	"github.com/awsmp/metering/internal/awsapi"
)

// Region is the one that Config names. moto and fauxqs keep what belongs to each Region apart, dynalite does not.
const Region = "us-east-1"

// StartTimeout is how long a stand-in may take until it answers.
const StartTimeout = 60 * time.Second

// One process of each kind serves the whole test binary: to start one costs a second or more.
var (
	moto     = service{command: []string{"python3", "serve.py"}, hint: "pip install 'moto[server]==5.2.1'"}
	dynalite = service{command: []string{"node", "serve.mjs", "dynalite"}, needs: "node_modules/dynalite", hint: npm}
	fauxqs   = service{command: []string{"node", "serve.mjs", "fauxqs"}, needs: "node_modules/fauxqs", hint: npm}

	transport = &http.Transport{DisableCompression: true, MaxIdleConnsPerHost: 64, IdleConnTimeout: 30 * time.Second}
)

const npm = "npm ci --ignore-scripts --no-audit --no-fund --prefix internal/standin"

// Moto returns the address of moto, for DynamoDB and SQS in small runs. It starts moto at first use.
func Moto(t testing.TB) string { t.Helper(); return moto.url(t) }

// Dynalite returns the address of dynalite, for DynamoDB in volume. It starts dynalite at first use.
func Dynalite(t testing.TB) string { t.Helper(); return dynalite.url(t) }

// Fauxqs returns the address of fauxqs, for SQS in volume. It starts fauxqs at first use.
func Fauxqs(t testing.TB) string { t.Helper(); return fauxqs.url(t) }

// Stop ends what was started and closes the idle connections to it. It is for TestMain, after the tests. A stand-in whose test
// binary ended without Stop ends too, because its standard input does.
func Stop() {
	transport.CloseIdleConnections()
	for _, s := range []*service{&moto, &dynalite, &fauxqs, &chromium} {
		s.stop()
	}
}

// Config is the configuration of an SDK client that talks to the endpoint, a stand-in's or a Proxy's, with invented credentials.
func Config(endpoint string) aws.Config {
	return aws.Config{
		Region:       Region,
		Credentials:  credentials.NewStaticCredentialsProvider("AKIAIOSFODNN7EXAMPLE", "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY", ""),
		BaseEndpoint: aws.String(endpoint),
		HTTPClient:   awsapi.KeepBodies(&http.Client{Transport: transport}),
	}
}

// errMissing is wrapped where a stand-in is not installed, in contrast to one that does not start.
var errMissing = errors.New("not installed")

// service is one stand-in's process.
type service struct {
	command []string // run in this package's folder; prints its address as its first line
	needs   string   // in this package's folder, what must be there
	hint    string   // how to install it
	tidies  bool     // puts something away when its input is closed, and is not killed before it has

	once    sync.Once
	address string
	err     error
	cmd     *exec.Cmd
	stdin   io.Closer
}

// url starts the service at first use.
func (s *service) url(t testing.TB) string {
	t.Helper()
	s.once.Do(func() { s.address, s.err = s.start() })
	installed(t, s.err)
	return s.address
}

// installed ends the test if there is an error: it is skipped where something is not installed, but in continuous integration it
// fails.
func installed(t testing.TB, err error) {
	t.Helper()
	switch {
	case errors.Is(err, errMissing) && os.Getenv("CI") == "":
		t.Skip(err)
	case err != nil:
		t.Fatal(err)
	}
}

func (s *service) start() (string, error) {
	name := strings.Join(s.command, " ")
	missing := func(what any) error { return fmt.Errorf("%v: %w. Try: %s", what, errMissing, s.hint) }
	folder, err := folder()
	if err != nil {
		return "", err
	}
	if _, err := exec.LookPath(s.command[0]); err != nil {
		return "", missing(s.command[0])
	}
	if s.needs != "" {
		if _, err := os.Stat(filepath.Join(folder, s.needs)); err != nil {
			return "", missing(s.needs)
		}
	}
	cmd := exec.Command(s.command[0], s.command[1:]...)
	cmd.Dir, cmd.Stderr = folder, os.Stderr
	if s.stdin, err = cmd.StdinPipe(); err != nil {
		return "", fmt.Errorf("open the input of %s: %w", name, err)
	}
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		return "", fmt.Errorf("open the output of %s: %w", name, err)
	}
	if err := cmd.Start(); err != nil {
		return "", fmt.Errorf("start %s: %w", name, err)
	}
	s.cmd = cmd
	if f, ok := stdout.(*os.File); ok {
		_ = f.SetReadDeadline(time.Now().Add(StartTimeout))
	}
	line, err := bufio.NewReader(stdout).ReadString('\n')
	line = strings.TrimSpace(line)
	switch {
	case strings.HasPrefix(line, "http://"):
		return line, nil
	case strings.HasPrefix(line, "missing: "):
		return "", missing(strings.TrimPrefix(line, "missing: "))
	case err == nil:
		err = errors.New("no address in its first line")
	}
	return "", fmt.Errorf("wait for %s, which printed %q: %w", name, line, err)
}

func (s *service) stop() {
	s.once.Do(func() { s.err = errors.New("the stand-ins were stopped") })
	if s.cmd == nil {
		return
	}
	_ = s.stdin.Close()
	if !s.tidies {
		_ = s.cmd.Process.Kill()
	}
	_ = s.cmd.Wait() // says that it was killed
	s.cmd = nil
}

// folder finds this package's folder from that of the package under test, where the go command runs a test binary.
func folder() (string, error) {
	at, err := os.Getwd()
	if err != nil {
		return "", fmt.Errorf("find the stand-ins: %w", err)
	}
	for {
		here := filepath.Join(at, "internal", "standin")
		if _, err := os.Stat(filepath.Join(here, "package.json")); err == nil {
			return here, nil
		}
		up := filepath.Dir(at)
		if up == at {
			return "", errors.New("find the stand-ins: no internal/standin above the working folder; run the tests inside the repository")
		}
		at = up
	}
}
