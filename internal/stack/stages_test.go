package stack

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/aws/aws-sdk-go-v2/service/cloudwatchlogs"

	"github.com/awsmp/metering/internal/desk"
)

// logOf serves one log as FilterLogEvents does, forwards in time and in pages of 100 lines: a run ends so often, up to an instant. moto puts
// 10,000 lines on a page, and what is to be shown here takes more than 20 of them.
func logOf(t *testing.T, every time.Duration, first, last time.Time) *cloudwatchlogs.Client {
	t.Helper()
	type event struct {
		Timestamp int64  `json:"timestamp"`
		Message   string `json:"message"`
	}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var in struct {
			StartTime, EndTime int64
			NextToken          string
		}
		if err := json.NewDecoder(r.Body).Decode(&in); err != nil || !strings.HasSuffix(r.Header.Get("X-Amz-Target"), ".FilterLogEvents") {
			t.Errorf("asked for %s: %v", r.Header.Get("X-Amz-Target"), err)
		}
		n := max(0, (in.StartTime-first.UnixMilli()+every.Milliseconds()-1)/every.Milliseconds())
		if in.NextToken != "" {
			n, _ = strconv.ParseInt(in.NextToken, 10, 64)
		}
		var out struct {
			Events    []event `json:"events"`
			NextToken *string `json:"nextToken,omitempty"`
		}
		for at := first.UnixMilli() + n*every.Milliseconds(); at <= min(in.EndTime, last.UnixMilli()); at += every.Milliseconds() {
			if len(out.Events) == 100 {
				out.NextToken = aws.String(strconv.FormatInt(n, 10))
				break
			}
			out.Events = append(out.Events, event{at, `level=INFO msg="run ended" messages=1`})
			n++
		}
		w.Header().Set("Content-Type", "application/x-amz-json-1.1")
		_ = json.NewEncoder(w).Encode(out)
	}))
	t.Cleanup(server.Close)
	return cloudwatchlogs.New(cloudwatchlogs.Options{
		Region: "us-east-1", BaseEndpoint: &server.URL, Credentials: credentials.NewStaticCredentialsProvider("AKIAIOSFODNN7EXAMPLE", "secret", ""),
	})
}

// The last run of a log that is longer than what is read is that at its end, or is not known: never one before it.
func TestLastRunOfALongLog(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 3, 10, 15, 20, 0, 0, time.UTC)
	for _, tt := range []struct {
		name              string
		every, since, ago time.Duration
		runs              int // -1: not whole
		known, gap        bool
	}{
		{"none", time.Minute, -time.Minute, 0, 0, false, false},
		{"a run a minute", time.Minute, 48 * time.Hour, 0, 61, true, false},
		{"ten a second", 100 * time.Millisecond, 48 * time.Hour, 0, -1, true, true},
		{"a hundred a second", 10 * time.Millisecond, 48 * time.Hour, 0, 0, false, true},
		{"the last one half an hour ago", time.Minute, 48 * time.Hour, 30 * time.Minute, 31, true, false},
		{"the last one three hours ago", time.Minute, 48 * time.Hour, 3 * time.Hour, 0, true, false},
		{"a long log that ended twenty hours ago", time.Second, 48 * time.Hour, 20 * time.Hour, 0, false, true},
		{"the last one two days ago", time.Minute, 72 * time.Hour, 48 * time.Hour, 0, false, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			last := now.Add(-tt.ago)
			s := &Stack{ProductCode: "product", here: clients{logs: logOf(t, tt.every, now.Add(-tt.since), last)}, now: func() time.Time { return now }}
			stage, err := s.stageOf(t.Context(), function{name: "aggregator"}, map[string]desk.Stop{})
			if (err != nil) != tt.gap || err != nil && !strings.Contains(err.Error(), "/aws/lambda/awsmp-product-aggregator") {
				t.Errorf("the gap is %v", err)
			}
			if tt.known && !stage.LastAt.Equal(last) || !tt.known && !stage.LastAt.IsZero() {
				t.Errorf("last run at %v, want %v", stage.LastAt, last)
			}
			if tt.runs >= 0 && stage.Runs != tt.runs {
				t.Errorf("%d runs", stage.Runs)
			}
		})
	}
}
