package deploy_test

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/awsmp/metering/internal/template"
)

// hear gives the console what a function has printed since it was asked last.
func (d *drill) hear(f *driven) {
	d.t.Helper()
	text := f.Logs()
	if fresh := text[d.heard[f]:]; strings.TrimSpace(fresh) != "" {
		d.silent[f.name] = d.console.printed(f.name, fresh) == 0
	}
	d.heard[f] = len(text)
}

// counted counts invocations of a function, or that there were none, as Lambda does.
func (d *drill) counted(function string, invocations, failures, throttles int) {
	dimensions := map[string]string{"FunctionName": function}
	if invocations > 0 {
		d.console.count("AWS/Lambda", "Invocations", dimensions, float64(invocations))
		d.console.count("AWS/Lambda", "Errors", dimensions, float64(failures))
	}
	if throttles > 0 {
		d.console.count("AWS/Lambda", "Throttles", dimensions, float64(throttles))
	}
}

// pace says how many minutes lie between two real runs of a function's target at least.
type pace func(function string) int

// often runs targets of the functions named whenever they are due, and those of others once an hour.
func often(functions ...string) pace {
	return func(function string) int {
		if slices.Contains(functions, strings.TrimPrefix(function, "awsmp-"+drillProduct+"-")) {
			return 0
		}
		return 60
	}
}

// pass lets minutes pass on the console's clock. What is due in a minute is called at once; then the queues run dry. A target that is due again sooner than
// its pace is not run: what Lambda told of its last run is told once more. What it counted of usage is not.
func (d *drill) pass(minutes int, p pace) {
	d.t.Helper()
	d.hours(1, minutes, p, func(int) {})
}

// round passes to the tenth minute of a quarter of an hour, with a run of the discoverer and one of the submitter in the last five: one period of the alarms.
func (d *drill) round(p pace) {
	d.t.Helper()
	minutes := (10+2*quarter-d.console.now.Minute()%quarter-1)%quarter + 1
	if minutes <= 5 {
		minutes += quarter
	}
	d.pass(minutes, p)
}

// hours passes n times some minutes, with work to begin each with.
func (d *drill) hours(n, minutes int, p pace, work func(int)) {
	d.t.Helper()
	d.look()
	clear(d.last)
	fresh := true
	for i := range n {
		work(i)
		for range minutes {
			d.console.now = d.console.now.Add(time.Minute)
			busy := d.fire(p) || fresh
			for _, s := range d.sources {
				busy = s.comeBack() || busy
			}
			if busy {
				d.dry()
			}
			d.measure(busy)
			fresh = false
		}
	}
	d.console.publish()
	if left := time.Since(d.console.now); left < 0 {
		d.t.Fatalf("the console's clock is %v ahead: drillLength is too short", -left)
	}
}

// fire calls what is due in this minute, and reports whether anything was called.
func (d *drill) fire(p pace) (called bool) {
	d.t.Helper()
	var all sync.WaitGroup
	var mu sync.Mutex
	done := map[string]drillRun{} // by target
	for _, f := range d.firings {
		function, target := d.functions[f.function], f.of+" "+f.name
		last, known := d.last[target]
		switch {
		case !slices.Contains(f.minutes, d.console.now.Minute()):
		case known && d.console.now.Sub(last.at) < time.Duration(p(function.name))*time.Minute:
			d.ran(last)
			if !last.throttled && !d.silent[function.name] {
				d.console.count("AWS/Logs", "IncomingLogEvents", map[string]string{"LogGroupName": "/aws/lambda/" + function.name}, 1)
			}
		case d.throttled[function.name]:
			d.last[target] = drillRun{of: function.name, at: d.console.now, throttled: true}
			d.ran(d.last[target])
		default:
			called = true
			run := drillRun{of: function.name, at: d.console.now}
			all.Go(func() {
				_, err := function.Invoke(d.t.Context(), []byte(f.input))
				run.failed = err != nil
				mu.Lock()
				defer mu.Unlock()
				done[target] = run
			})
		}
	}
	all.Wait()
	for target, run := range done {
		d.last[target] = run
		d.ran(run)
	}
	for _, f := range d.functions {
		d.hear(f)
	}
	return called
}

// ran counts a run, or that there was none.
func (d *drill) ran(r drillRun) {
	switch {
	case r.throttled:
		d.counted(r.of, 0, 0, 1)
	case r.failed:
		d.counted(r.of, 1, 1, 0)
	default:
		d.counted(r.of, 1, 0, 0)
	}
}

// measure counts what is in the queues, as SQS does each minute for those that are in use. What nobody has touched holds what it held.
func (d *drill) measure(fresh bool) {
	d.t.Helper()
	for _, s := range []*template.Stack{d.deployed.Events, d.deployed.Stack} {
		for _, r := range s.OfType(queueType) {
			name := r.Text("QueueName")
			was := d.held[name]
			if fresh {
				visible, underWay := d.depth(name)
				if d.held[name] = visible; visible+underWay == 0 {
					delete(d.since, name)
				} else if d.since[name].IsZero() {
					d.since[name] = d.console.now
				}
			}
			dimensions := map[string]string{"QueueName": name}
			if since := d.since[name]; !since.IsZero() {
				d.console.count("AWS/SQS", "ApproximateAgeOfOldestMessage", dimensions, d.console.now.Sub(since).Seconds())
			}
			if was+d.held[name] > 0 {
				d.console.count("AWS/SQS", "ApproximateNumberOfMessagesVisible", dimensions, float64(d.held[name]))
			}
		}
	}
}

// depth is how many messages a queue holds.
func (d *drill) depth(name string) (visible, underWay int) {
	d.t.Helper()
	out, err := d.cloud.call("sqs", "AmazonSQS.GetQueueAttributes", map[string]any{
		"QueueUrl": d.queueURL(name), "AttributeNames": []string{"ApproximateNumberOfMessages", "ApproximateNumberOfMessagesNotVisible"},
	})
	d.must(err)
	_, err = fmt.Sscan(out.text("Attributes", "ApproximateNumberOfMessages")+" "+out.text("Attributes", "ApproximateNumberOfMessagesNotVisible"), &visible, &underWay)
	d.must(err)
	return visible, underWay
}
