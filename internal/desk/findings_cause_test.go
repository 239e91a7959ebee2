package desk

import (
	"strings"
	"testing"
)

// Of what an SDK says only what failed and why is shown, and of anything only so much.
func TestCause(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"":                      "",
		"send records: denied":  "send records: denied",
		"first line\nTry: this": "first line",
		`send records: operation error Marketplace Metering: BatchMeterUsage, https response error StatusCode: 400, RequestID: 7c4a, api error AccessDeniedException: not allowed`:                                                                                                                                                                                    "send records: Marketplace Metering: BatchMeterUsage: AccessDeniedException: not allowed",
		`call: operation error Marketplace Metering: BatchMeterUsage, exceeded maximum number of attempts, 3, https response error StatusCode: 0, RequestID: , request send failed, Post "http://127.0.0.1:1/": dial tcp 127.0.0.1:1: connect: connection refused (no answer from http://127.0.0.1:1: is it running? The simulator is started with: awsmp simulator)`: "call: Marketplace Metering: BatchMeterUsage: dial tcp 127.0.0.1:1: connect: connection refused",
		strings.Repeat("é", 400): strings.Repeat("é", maxCause-1) + "…",
	} {
		if got := Cause(text); got != want {
			t.Errorf("Cause(%q) = %q, want %q", text, got, want)
		}
	}
}
