package main

import (
	"strings"
	"testing"

	"github.com/awsmp/metering/internal/dev"
	"github.com/awsmp/metering/internal/lifecycle"
)

// An event that changes nothing, or not everything, says why.
func TestWhatChangesNothingSaysWhy(t *testing.T) {
	t.Parallel()
	for want, changed := range map[string][]bool{
		"agreement-ended: 2 of 2 licenses changed.\n":                                                           {true, true},
		"agreement-ended: 1 of 3 licenses changed: of the others what the table holds is newer, or the same.\n": {false, true, false},
		"agreement-ended: 0 of 2 licenses changed: what the table holds is newer, or the same.\n":               {false, false},
	} {
		applied := lifecycle.Applied{Kind: string(lifecycle.AgreementEnded)}
		for _, c := range changed {
			applied.Licenses = append(applied.Licenses, lifecycle.Change{License: exampleLicense, Account: exampleAccount, Changed: c})
		}
		if got := told([]dev.EventResult{{Applied: &applied}}); !strings.HasPrefix(got, want) {
			t.Errorf("got %q, want %q", got, want)
		}
	}
}

func TestFunctionName(t *testing.T) {
	t.Parallel()
	for function, want := range map[string]string{
		"awsmp-subscription":                                                         "awsmp-subscription",
		"awsmp-subscription:live":                                                    "awsmp-subscription",
		"111122223333:function:awsmp-subscription":                                   "awsmp-subscription",
		"arn:aws:lambda:us-east-1:111122223333:function:awsmp-subscription":          "awsmp-subscription",
		"arn:aws:lambda:us-east-1:111122223333:function:awsmp-subscription:7":        "awsmp-subscription",
		"arn:aws-us-gov:lambda:us-gov-west-1:111122223333:function:function:$LATEST": "function",
	} {
		if got := functionName(function); got != want {
			t.Errorf("%s: %q, want %q", function, got, want)
		}
	}
}
