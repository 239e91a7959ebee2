package costs

import (
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	sqssdk "github.com/aws/aws-sdk-go-v2/service/sqs"

	"github.com/awsmp/metering/internal/functions"
	"github.com/awsmp/metering/internal/lambdahost"
	"github.com/awsmp/metering/internal/metering"
	"github.com/awsmp/metering/internal/queue/sqs"
	"github.com/awsmp/metering/internal/standin"
)

var benchGroups = flag.Int("bench.groups", allGroups, "groups of 100 rows that BenchmarkProcessor plays")

// build compiles the Lambda binary as scripts/package.sh does, for this machine.
func build(b *testing.B) string {
	b.Helper()
	binary := filepath.Join(b.TempDir(), "bootstrap")
	cmd := exec.Command("go", "build", "-tags", "lambda.norpc", "-trimpath", "-buildvcs=false", "-ldflags", "-s -w -buildid=", "-o", binary, "../../cmd/bootstrap")
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := cmd.CombinedOutput(); err != nil {
		b.Fatalf("build: %v\n%s", err, out)
	}
	return binary
}

// host starts a function as processes, past what counts.
func (p *play) host(binary, handler string, concurrency int) *lambdahost.Function {
	p.t.Helper()
	read, err := functions.Named(handler)
	fatal(p.t, err)
	env := []string{"AWS_ENDPOINT_URL_DYNAMODB=" + p.meter(handler).dynamo, "AWS_ENDPOINT_URL_SQS=" + p.meter(handler).sqs}
	for _, v := range read.Variables {
		if value := p.env[v.Name]; value != "" && !v.Reserved {
			env = append(env, v.Name+"="+value)
		}
	}
	return lambdahost.Start(p.t, lambdahost.Options{
		Binary: binary, Handler: handler, Env: env, Timeout: 5 * time.Minute, Concurrency: concurrency, MemoryMB: int(memory(handler)),
	})
}

// BenchmarkProcessor finds, sums and labels rows with the Lambda binary in processes of its own, and says how much user and system
// time those took, and how much memory.
func BenchmarkProcessor(b *testing.B) {
	binary := build(b)
	for b.Loop() {
		p, n := newPlay(b), *benchGroups
		for _, g := range groups(n, metering.HourOf(time.Now())-1) {
			fatal(b, p.store.PutRows(b.Context(), rowsOf(g, perGroup)))
		}
		var all time.Duration
		report := func(f *lambdahost.Function, handler string) {
			peak := residentPeak(b, binary, handler)
			f.Kill()
			user, system := f.Usage()
			all += user + system
			b.ReportMetric(seconds(user+system, n), handler+"-CPU-s/Mrows")
			b.ReportMetric(peak, handler+"-MB")
		}

		discoverer := p.host(binary, functions.Discoverer, 1)
		enqueued := 0
		for offset := 1; offset <= 2; offset++ { // the hour may have turned since the rows were written
			answer, err := discoverer.Invoke(b.Context(), fmt.Appendf(nil, `{"mode":"meter","hourOffset":%d}`, offset))
			fatal(b, err)
			var found struct{ Enqueued int }
			fatal(b, json.Unmarshal(answer, &found))
			enqueued += found.Enqueued
		}
		if enqueued != n {
			b.Fatalf("%d groups enqueued, want %d", enqueued, n)
		}
		report(discoverer, functions.Discoverer)
		for _, step := range []struct {
			handler, queue     string
			batch, concurrency int
		}{{functions.Aggregator, "work", workBatch, 4}, {functions.Cleanup, "cleanup", cleanupBatch, 5}} {
			f := p.host(binary, step.handler, step.concurrency)
			p.process(f, step.queue, n, step.batch, step.concurrency)
			report(f, step.handler)
		}
		b.ReportMetric(seconds(all, n), "CPU-s/Mrows")
	}
	b.ReportMetric(0, "ns/op")
}

// process runs an event source mapping until all messages are done.
func (p *play) process(f *lambdahost.Function, kind string, messages, batch, concurrency int) {
	p.t.Helper()
	client := sqssdk.NewFromConfig(standin.Config(p.meter(kind).sqs))
	m := lambdahost.Map(p.t, f, lambdahost.Source{Queue: sqs.New(client, p.urls[kind]), QueueName: path.Base(p.urls[kind]), Batch: batch, Concurrency: concurrency})
	defer m.Stop()
	for m.Tally().Deleted < messages {
		if got := m.Tally(); got.Failures+got.Returned > 0 {
			p.t.Fatalf("%s: %+v", kind, got)
		}
		time.Sleep(20 * time.Millisecond)
	}
}

// seconds are those that a million rows would take.
func seconds(d time.Duration, groups int) float64 {
	return d.Seconds() * million / float64(groups*perGroup)
}

// residentPeak is the most memory, in MB, that any process of a function has had resident, as Linux says.
func residentPeak(b *testing.B, binary, handler string) (most float64) {
	b.Helper()
	children, err := filepath.Glob("/proc/[0-9]*")
	fatal(b, err)
	for _, dir := range children {
		exe, _ := os.Readlink(dir + "/exe")
		env, _ := os.ReadFile(dir + "/environ")
		status, err := os.ReadFile(dir + "/status")
		if err != nil || exe != binary || !slices.Contains(strings.Split(string(env), "\x00"), "_HANDLER="+handler) {
			continue // another program, or gone meanwhile
		}
		for line := range strings.Lines(string(status)) {
			if fields := strings.Fields(line); len(fields) == 3 && fields[0] == "VmHWM:" {
				kb, err := strconv.ParseFloat(fields[1], 64)
				fatal(b, err)
				most = max(most, kb/1024)
			}
		}
	}
	if most == 0 {
		b.Fatalf("no process of %s is there", handler)
	}
	return most
}

// BenchmarkColdStart is the time from the start of a function's process to its first request for an event.
func BenchmarkColdStart(b *testing.B) {
	binary := build(b)
	p := newPlay(b)
	for _, handler := range []string{functions.Discoverer, functions.Submitter} {
		b.Run(handler, func(b *testing.B) {
			f := p.host(binary, handler, 1)
			for b.Loop() {
				for range 30 {
					if _, err := f.Invoke(b.Context(), []byte(`{`)); !lambdahost.Failed(err, lambdahost.Errored) {
						b.Fatal(err)
					}
					f.Kill()
				}
			}
			starts := f.ColdStarts()
			slices.Sort(starts)
			b.ReportMetric(float64(starts[len(starts)/2].Microseconds())/1000, "median-ms")
			b.ReportMetric(float64(starts[len(starts)-1].Microseconds())/1000, "most-ms")
			b.ReportMetric(0, "ns/op")
		})
	}
}
