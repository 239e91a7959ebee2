package costs

import (
	"fmt"
	"slices"

	"github.com/awsmp/metering/internal/functions"
)

// Published prices of us-east-1 in dollars, on demand and without any free tier, as of November 2026.
const (
	perMillionWriteUnits = 0.625        // Amazon DynamoDB pricing, on-demand capacity, standard table class
	perMillionReadUnits  = 0.125        // likewise
	perStoredGBMonth     = 0.25         // likewise, data storage
	perBackedUpGBMonth   = 0.20         // likewise, point-in-time recovery
	perMillionQueueUnits = 0.40         // Amazon SQS pricing, standard queues; a request is 64 KB
	perMillionInvokes    = 0.20         // AWS Lambda pricing, requests
	perGBSecond          = 0.0000133334 // AWS Lambda pricing, arm64, first tier
	perLogGB             = 0.50         // Amazon CloudWatch pricing, standard logs, collected
	perMetricMonth       = 0.30         // Amazon CloudWatch pricing, custom metrics, first tier
)

const (
	million      = 1e6
	gigabyte     = 1e9
	megabytes    = 1000 // in one
	hoursAMonth  = 730  // as AWS's own calculator has it
	itemOverhead = 100  // bytes stored beside each item (Amazon DynamoDB developer guide, "DynamoDB item sizes and formats")
	lambdaLines  = 400  // bytes of Lambda's own START, END and REPORT lines of an invocation; an assumption
)

// What Lambda bills is duration, and that cannot be measured here. It is computed from what can be: the processor time of the
// functions' processes, the share of a processor that a function's memory buys, and a wait for each request, one after another.
const (
	memoryOfOneProcessor = 1769  // MB (AWS Lambda developer guide, "Configure Lambda function memory")
	requestWait          = 0.005 // seconds for a request to DynamoDB or SQS within a Region; an assumption
	cleanupPace          = 150   // rows a second that a cleanup writes at most: it sets the duration
	coldOrIdle           = 0.002 // seconds of an invocation that does nothing; an assumption
)

// processor is the processor time of a function's processes for a million rows, in seconds: what BenchmarkProcessor
// printed, as docs/performance.md has it.
func processor(handler string) float64 {
	return map[string]float64{functions.Discoverer: 6.8, functions.Aggregator: 45.8, functions.Cleanup: 510.5}[handler]
}

// memory is the memory of a function in MB.
func memory(handler string) float64 {
	if handler == functions.Cleanup {
		return 256
	}
	return 512
}

const (
	seller      = "seller"  // the stage that writes rows
	kept        = "kept"    // what the tables hold in the end
	metricsMade = "measure" // metrics that CloudWatch makes of the log
)

// Line is one line of a bill.
type Line struct {
	For     string
	Amount  float64
	Unit    string
	Price   float64 // dollars a million of the unit
	Dollars float64
}

func line(what string, amount float64, unit string, perMillion float64) Line {
	return Line{what, amount, unit, perMillion, amount * perMillion / million}
}

// Bill is what something costs.
type Bill []Line

// Total is the sum of the lines.
func (b Bill) Total() (sum float64) {
	for _, l := range b {
		sum += l.Dollars
	}
	return sum
}

// Table is the bill as rows of a table in Markdown.
func (b Bill) Table() (rows []string) {
	for _, l := range b {
		price := fmt.Sprintf("$%.3g a million", l.Price)
		if l.Price >= 1000 {
			price = fmt.Sprintf("$%.3g each", l.Price/million)
		}
		rows = append(rows, fmt.Sprintf("| %s | %s %s | %s | $%s |", l.For, amount(l.Amount), l.Unit, price, cents(l.Dollars)))
	}
	return append(rows, fmt.Sprintf("| **all** | | | **$%s** |", cents(b.Total())))
}

// amount is a number for people: three figures where it is small, with commas where it is large.
func amount(n float64) string {
	if n < 1000 {
		return fmt.Sprintf("%.3g", n)
	}
	digits := fmt.Sprintf("%.0f", n)
	for at := len(digits) - 3; at > 0; at -= 3 {
		digits = digits[:at] + "," + digits[at:]
	}
	return digits
}

func cents(dollars float64) string {
	if dollars != 0 && dollars < 0.01 {
		return fmt.Sprintf("%.4f", dollars)
	}
	return fmt.Sprintf("%.2f", dollars)
}

func requests(t Tally) float64 { return float64(t.Requests) }
func units(t Tally) float64    { return t.Units }
func allUnits(t Tally) float64 { return t.Units + t.IndexUnits }
func logBytes(t Tally) float64 { return float64(t.Bytes) }

func reads(c Class) bool { return c.Operation == "Query" || c.Operation == "GetItem" }
func calls(c Class) bool {
	return reads(c) || writes(c) || queues(c) || c.Operation == "BatchMeterUsage"
}
func invokes(c Class) bool { return c.Operation == "Invoke" }
func logs(c Class) bool    { return c.Operation == "PutLogEvents" }

func queues(c Class) bool {
	return slices.Contains([]string{"SendMessageBatch", "ReceiveMessage", "DeleteMessageBatch"}, c.Operation)
}

func writes(c Class) bool {
	return slices.Contains([]string{"PutItem", "UpdateItem", "BatchWriteItem"}, c.Operation)
}

// by narrows a match to one stage.
func by(stage string, match func(Class) bool) func(Class) bool {
	return func(c Class) bool { return c.Stage == stage && match(c) }
}

func not(stages []string, match func(Class) bool) func(Class) bool {
	return func(c Class) bool { return !slices.Contains(stages, c.Stage) && match(c) }
}

// PerMillionRows is what a million rows cost, from a play of so many.
func PerMillionRows(s Section, rows int) Bill {
	scale := million / float64(rows)
	count := func(match func(Class) bool, figure func(Tally) float64) float64 { return s.sum(match, figure) * scale }
	return Bill{
		line("rows, written by the seller", count(by(seller, writes), allUnits), "write units", perMillionWriteUnits),
		line("rows, labelled", count(by(functions.Cleanup, writes), allUnits), "write units", perMillionWriteUnits),
		line("records: created, marked as sent, finished", count(not([]string{seller, functions.Cleanup}, writes), allUnits), "write units", perMillionWriteUnits),
		line("reads of rows, records and indexes", count(not([]string{seller}, reads), units), "read units", perMillionReadUnits),
		line("queues", count(queues, units), "requests of 64 KB", perMillionQueueUnits),
		line("Lambda, invocations", count(invokes, requests), "invocations", perMillionInvokes),
		line("Lambda, duration", durations(s, scale), "GB-seconds", perGBSecond*million),
		line("logs", (count(logs, logBytes)+count(invokes, requests)*lambdaLines)/million, "MB", perLogGB*million/megabytes),
	}
}

// durations are the GB-seconds of all functions of a play.
func durations(s Section, scale float64) (sum float64) {
	for _, f := range functions.All() {
		seconds := processor(f.Handler) / (memory(f.Handler) / memoryOfOneProcessor)
		if f.Handler == functions.Cleanup { // its writes are under way at once, and paced
			seconds = max(seconds, s.sum(by(f.Handler, writes), requests)*scale/cleanupPace)
		} else {
			seconds += s.sum(by(f.Handler, calls), requests) * scale * requestWait
		}
		sum += seconds * memory(f.Handler) / 1024
	}
	return sum
}

// QuietMonth is what the schedules cost in a month in which nothing happens, from what one quarter of an hour asks (all slices of
// the discoverer) and what five minutes do (flush, submission and expiry).
func QuietMonth(quarter, five Section) Bill {
	const quarters, fives = 4 * hoursAMonth, 12 * hoursAMonth
	count := func(match func(Class) bool, figure func(Tally) float64) float64 {
		return quarter.sum(match, figure)*quarters + five.sum(match, figure)*fives
	}
	runs := count(invokes, requests)
	wait := count(reads, requests)*requestWait + runs*coldOrIdle
	const pollers, pollsAMinute, queues = 5, 3, 3
	return Bill{
		line("reads of indexes", count(reads, units), "read units", perMillionReadUnits),
		line("Lambda, invocations", runs, "invocations", perMillionInvokes),
		line("Lambda, duration", wait*memory(functions.Discoverer)/1024, "GB-seconds", perGBSecond*million),
		line("logs", (count(logs, logBytes)+runs*lambdaLines)/million, "MB", perLogGB*million/megabytes),
		line("empty receives of three queues", queues*pollers*pollsAMinute*60*hoursAMonth, "requests", perMillionQueueUnits),
	}
}

// Kept is what a month costs of what is there after a million rows, and the metrics of a product whose usage flows.
func Kept(s Section, rows int) Bill {
	size := s.sum(func(c Class) bool { return c.Operation == kept }, logBytes) * million / float64(rows) / gigabyte
	metrics := map[string]bool{}
	for _, r := range s {
		if r.Operation == metricsMade {
			metrics[r.Resource] = true
		}
	}
	return Bill{
		line("a million rows and their records, stored", size, "GB", perStoredGBMonth*million),
		line("point-in-time recovery of them", size, "GB", perBackedUpGBMonth*million),
		line("metrics of ordinary usage", float64(len(metrics)), "metrics", perMetricMonth*million),
	}
}

// MeterMonth is what one meter that reports every second costs in a month of 730 hours: written as the writer did in a play of some
// minutes, and from there on as a million rows do, of which records go by the groups and all else by the rows.
func MeterMonth(writer Section, minutes, rows int, after Bill) Bill {
	scale := hoursAMonth * 60 / float64(minutes)
	written := float64(rows) * scale
	labels, records, rest := after[1], after[2], after[3:]
	return Bill{
		line("rows, written", writer.sum(writes, allUnits)*scale, "write units", perMillionWriteUnits),
		line("looks at the record beside each flush", writer.sum(reads, units)*scale, "read units", perMillionReadUnits),
		line("rows, labelled", labels.Amount*written/million, "write units", perMillionWriteUnits),
		line("records", records.Amount*hoursAMonth*perGroup/million, "write units", perMillionWriteUnits),
		line("all else", written, "rows", rest.Total()),
	}
}

// perGroup is how many rows a group has in the play.
const perGroup = 100
