package main

import (
	"bytes"
	"context"
	"os"
	"strings"
	"testing"
)

// TestReadmeShowsWhatTheDemoPrints: an excerpt that the program no longer prints is worse than none. Lines of three dots stand
// for what is left out.
func TestReadmeShowsWhatTheDemoPrints(t *testing.T) {
	t.Parallel()
	readme, err := os.ReadFile("../../README.md")
	if err != nil {
		t.Fatal(err)
	}
	_, rest, _ := strings.Cut(string(readme), "    make demo\n")
	_, rest, found := strings.Cut(rest, "```text\n")
	excerpt, _, closed := strings.Cut(rest, "```")
	if !found || !closed {
		t.Fatal("README.md shows no output of make demo")
	}
	var out, errs bytes.Buffer
	if code := run(context.Background(), []string{"demo"}, strings.NewReader(""), &out, &errs); code != exitOK {
		t.Fatalf("exit code %d: %s", code, errs.String())
	}
	printed := out.String()
	for _, line := range strings.Split(strings.TrimRight(excerpt, "\n"), "\n") {
		if strings.TrimSpace(line) == "..." {
			continue
		}
		at := strings.Index(printed, line+"\n")
		if at < 0 {
			t.Fatalf("the demo does not print, or not in this order: %q", line)
		}
		printed = printed[at+len(line)+1:]
	}
}
