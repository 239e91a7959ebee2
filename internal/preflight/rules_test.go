package preflight_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/google/go-cmp/cmp"

	"github.com/awsmp/metering/internal/preflight"
	"github.com/awsmp/metering/internal/template"
)

// TestFitting computes what fits into a quota, and the template takes the parameters that come of it.
func TestFitting(t *testing.T) {
	t.Parallel()
	tmpl, err := template.Read(metering)
	must(t, err)
	full, none := 30+1+1, preflight.Defaults()
	for name, value := range map[string]int{
		"DiscovererReservedConcurrency": none.Discoverer, "SubmitterReservedConcurrency": none.Submitter, "ExpiryReservedConcurrency": none.Expiry, "AggregatorMaximumConcurrency": none.Aggregator,
	} {
		if got := tmpl.Parameters[name].Default; got != fmt.Sprint(value) {
			t.Errorf("%s is %s by default in the template, and %d here", name, got, value)
		}
	}
	if got := tmpl.Parameters["ProductCode"].AllowedPattern; got != preflight.CodePattern {
		t.Errorf("the template takes product codes of %s, and preflight of %s", got, preflight.CodePattern)
	}
	for _, c := range []struct {
		quota, free int
		want        []string
	}{
		{1000, 1000, nil}, {1000, 100 + full, nil},
		{1000, 100 + full - 1, []string{"DiscovererReservedConcurrency=29"}},
		{1000, 103, []string{"DiscovererReservedConcurrency=1"}},
		{1000, 102, []string{"DiscovererReservedConcurrency=none"}},
		{1000, 101, []string{"DiscovererReservedConcurrency=none", "SubmitterReservedConcurrency=none", "ExpiryReservedConcurrency=none"}},
		{10, 10, []string{"DiscovererReservedConcurrency=none", "SubmitterReservedConcurrency=none", "ExpiryReservedConcurrency=none", "AggregatorMaximumConcurrency=2"}},
	} {
		need, given := preflight.Fitting(c.quota, c.free)
		if diff := cmp.Diff(c.want, given); diff != "" {
			t.Errorf("%d of %d (-want +got):\n%s", c.free, c.quota, diff)
		}
		parameters := map[string]string{"ProductCode": code}
		for _, pair := range given {
			name, value, _ := strings.Cut(pair, "=")
			parameters[name] = value
		}
		stack, err := tmpl.Resolve(parameters, template.Place{})
		must(t, err)
		reserved := 0
		for _, f := range stack.OfType("AWS::Lambda::Function") {
			n, _ := f.Int("ReservedConcurrentExecutions")
			reserved += n
		}
		if reserved != need.Discoverer+need.Submitter+need.Expiry || reserved > 0 && c.free-reserved < 100 {
			t.Errorf("%d of %d: the stack reserves %d, and %+v was said", c.free, c.quota, reserved, need)
		}
	}
}

// TestPublishes judges policies of topics.
func TestPublishes(t *testing.T) {
	t.Parallel()
	const us, them = "111122223333", "444455556666"
	of := func(statements ...string) string { return `{"Statement": [` + strings.Join(statements, ",") + `]}` }
	owner := `{"Effect": "Allow", "Principal": {"AWS": "*"}, "Action": ["SNS:Publish", "SNS:Subscribe"], "Condition": {"StringEquals": {"AWS:SourceOwner": "` + us + `"}}}`
	service := `{"Effect": "Allow", "Principal": {"Service": "cloudwatch.amazonaws.com"}, "Action": "sns:Publish", "Condition": {"ArnLike": {"aws:SourceArn": "arn:aws:cloudwatch:us-east-1:` + us + `:alarm:*"}}}`
	for policy, want := range map[string]bool{
		of(owner): true, of(service): true, of(`{"Effect": "Allow", "Principal": "*", "Action": "*"}`): true, of(): false, "": false, "nonsense": false,
		of(strings.ReplaceAll(owner, us, them)): false, of(strings.ReplaceAll(service, us, them)): false,
		of(`{"Effect": "Allow", "Principal": {"Service": "events.amazonaws.com"}, "Action": "sns:Publish"}`):                                                                                           false,
		of(`{"Effect": "Allow", "Principal": {"Service": ["events.amazonaws.com", "cloudwatch.amazonaws.com"]}, "Action": "sns:Publish"}`):                                                             true,
		of(`{"Effect": "Allow", "Principal": {"Service": "cloudwatch.amazonaws.com"}, "Action": "sns:Subscribe"}`):                                                                                     false,
		of(owner, `{"Effect": "Deny", "Principal": "*", "Action": "sns:*"}`):                                                                                                                           false,
		of(`{"Effect": "Allow", "Principal": "*", "Action": "sns:Publish", "Condition": {"Bool": {"aws:SecureTransport": "true"}}}`):                                                                   false,
		of(owner, `{"Effect": "Deny", "Principal": "*", "Action": "sns:Publish", "Condition": {"Bool": {"aws:SecureTransport": "false"}}}`):                                                            true,
		of(`{"Effect": "Allow", "Principal": {"Service": "cloudwatch.amazonaws.com"}, "Action": "sns:Publish", "Condition": {"StringEquals": {"aws:SourceAccount": ["` + them + `", "` + us + `"]}}}`): true,
	} {
		if got := preflight.Publishes(policy, us); got != want {
			t.Errorf("%s: %v, want %v", policy, got, want)
		}
	}
}

// TestTemplateSize: what is too large for a call goes by way of a bucket.
func TestTemplateSize(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	sized := func(n int) string {
		name := filepath.Join(folder, fmt.Sprint(n))
		must(t, os.WriteFile(name, make([]byte, n), 0o600))
		return name
	}
	blind := func(context.Context, string) (aws.Config, error) { return aws.Config{}, fmt.Errorf("not here") }
	for file, want := range map[string]string{
		sized(51_200): "ok", sized(51_201): "ok aws cloudformation deploy … --s3-bucket BUCKET", sized(1_048_577): "problem", filepath.Join(folder, "none"): "unknown run it in the folder of the repository, or name the file with --template",
	} {
		c := check(t, preflight.Run(t.Context(), preflight.Options{Config: blind, Template: file}), "template size")
		if got := strings.TrimSpace(string(c.Result) + " " + c.Try); got != want {
			t.Errorf("%s: %s, want %s", file, got, want)
		}
	}
}
