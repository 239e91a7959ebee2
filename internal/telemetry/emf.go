package telemetry

import (
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"sync"
	"time"

	"github.com/awsmp/metering/internal/metering"
)

// Namespace is where CloudWatch files the metrics.
const Namespace = "AwsMarketplace/Metering"

// The dimensions of the metrics. A cause is an Exception where the Marketplace raised it and a Reason elsewhere.
const (
	DimensionProductCode  = "ProductCode"
	DimensionMeteringMode = "MeteringMode"
	DimensionReason       = "Reason"
	DimensionException    = "Exception"
)

// EMFOptions are the settings of an EMF.
type EMFOptions struct {
	ProductCode  string // empty in the events stack, which serves all products
	MeteringMode string // live or dry-run; may be empty
	// Now is the clock; nil means time.Now.
	Now func() time.Time
}

// EMF writes observations in CloudWatch's embedded metric format (Amazon CloudWatch user guide, "Specification: Embedded metric
// format"): one JSON document a line, which CloudWatch Logs turns into metrics where a Lambda function prints it. It is safe for
// concurrent use, and writes each line in one piece.
//
// A metric X counts items, and XUnits sums their units; XUnits is left out where there are none, or none are known. Both are
// published under ProductCode alone, which is what alarms watch: an alarm sees only one exact set of dimensions. The events stack, which
// serves all products, has MeteringMode in its place: a test stage beside it counts apart. Where there is
// a cause they are published by ProductCode, MeteringMode and cause as well. A document holds at most two metrics and three
// dimensions, of the 100 and 30 that the specification allows.
type EMF struct {
	options EMFOptions

	mu  sync.Mutex
	w   io.Writer
	err error
}

// NewEMF writes to w: the standard output, in Lambda.
func NewEMF(w io.Writer, o EMFOptions) *EMF {
	if o.Now == nil {
		o.Now = time.Now
	}
	o.ProductCode, o.MeteringMode = dimensionValue(o.ProductCode), dimensionValue(o.MeteringMode)
	return &EMF{w: w, options: o}
}

// Emit writes an observation.
func (e *EMF) Emit(m metering.Measure) {
	line := e.document(m)
	e.mu.Lock()
	defer e.mu.Unlock()
	if _, err := e.w.Write(line); err != nil && e.err == nil {
		e.err = fmt.Errorf("write metric %s: %w", m.Metric, err)
	}
}

// TakeErr is the first write that failed since it was last asked: what was emitted since then may be missing from the metrics.
func (e *EMF) TakeErr() error {
	e.mu.Lock()
	defer e.mu.Unlock()
	err := e.err
	e.err = nil
	return err
}

type emfHead struct {
	Timestamp         int64 // milliseconds since 1970
	CloudWatchMetrics []emfDirective
}

type emfDirective struct {
	Namespace  string
	Dimensions [][]string
	Metrics    []emfMetric
}

type emfMetric struct{ Name, Unit string }

// document is the line of an observation. What the dimensions and metrics of its head name stands beside it, by name.
func (e *EMF) document(m metering.Measure) []byte {
	root := make(map[string]any, 6)
	directive := emfDirective{Namespace: Namespace}
	count := func(name string, n int64) {
		root[name] = n
		directive.Metrics = append(directive.Metrics, emfMetric{Name: name, Unit: "Count"})
	}
	count(string(m.Metric), m.Items)
	if m.Units != 0 {
		count(string(m.Metric)+"Units", m.Units)
	}

	var product, mode []string
	if e.options.ProductCode != "" {
		product, root[DimensionProductCode] = []string{DimensionProductCode}, e.options.ProductCode
	}
	if e.options.MeteringMode != "" {
		mode, root[DimensionMeteringMode] = []string{DimensionMeteringMode}, e.options.MeteringMode
	}
	whole := product
	if len(product) == 0 {
		whole = mode
	}
	directive.Dimensions = [][]string{append([]string{}, whole...)} // an empty set stands for itself; null is no set
	if cause := dimensionValue(m.Cause); cause != "" {
		name := DimensionReason
		if m.Metric == metering.MetricException {
			name = DimensionException
		}
		root[name] = cause
		set := append(append([]string{}, product...), mode...)
		directive.Dimensions = append(directive.Dimensions, append(set, name))
	}
	root["_aws"] = emfHead{Timestamp: e.options.Now().UnixMilli(), CloudWatchMetrics: []emfDirective{directive}}

	line, err := json.Marshal(root)
	if err != nil { // unreachable: the document holds text and whole numbers only
		panic(err)
	}
	return append(line, '\n')
}

// maxDimensionValue is the longest dimension value, in characters (Amazon CloudWatch API reference, Dimension).
const maxDimensionValue = 1024

// dimensionValue makes text fit for a dimension: printable ASCII, not blank, of limited length (Amazon CloudWatch API
// reference, Dimension). A document with another value would be dropped by the service, and the metric with it.
func dimensionValue(s string) string {
	s = strings.TrimSpace(strings.Map(func(r rune) rune {
		if r < ' ' || r > '~' {
			return '?'
		}
		return r
	}, s))
	return s[:min(len(s), maxDimensionValue)]
}
