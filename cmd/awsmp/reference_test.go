package main

import (
	"bytes"
	"context"
	"flag"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/spf13/cobra"
)

var update = flag.Bool("update", false, "write docs/cli.md anew from the commands")

const referencePath = "../../docs/cli.md"

// TestReferenceIsWhatTheCommandsSay holds docs/cli.md to the help that the commands print.
func TestReferenceIsWhatTheCommandsSay(t *testing.T) {
	t.Parallel()
	var doc strings.Builder
	doc.WriteString("# Command reference\n\nWhat `awsmp` and its commands say of themselves. Written by `go test ./cmd/awsmp -run Reference -args -update`.\n")
	help := func(args ...string) {
		var out, errs bytes.Buffer
		if code := run(context.Background(), append(args, "--help"), strings.NewReader(""), &out, &errs); code != exitOK {
			t.Fatalf("awsmp %v --help: exit code %d: %s", args, code, errs.String())
		}
		fmt.Fprintf(&doc, "\n## %s\n\n```text\n%s\n```\n", strings.Join(append([]string{"awsmp"}, args...), " "), strings.TrimSpace(out.String()))
	}
	var all func(of *cobra.Command, args ...string)
	all = func(of *cobra.Command, args ...string) {
		help(args...)
		for _, cmd := range of.Commands() {
			if name := cmd.Name(); name != "help" && name != "completion" {
				all(cmd, append(slices.Clone(args), name)...)
			}
		}
	}
	all(newRootCommand())
	if *update {
		if err := os.WriteFile(referencePath, []byte(doc.String()), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	written, err := os.ReadFile(referencePath)
	if err != nil {
		t.Fatal(err)
	}
	if string(written) != doc.String() {
		t.Error("docs/cli.md is not what the commands say. Try: go test ./cmd/awsmp -run Reference -args -update")
	}
}
