package main

import (
	"bytes"
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// TestReadmeShowsWhatTheDemoPrints: an excerpt that the program no longer prints is worse than none.
func TestReadmeShowsWhatTheDemoPrints(t *testing.T) {
	t.Parallel()
	excerpt := excerptOf(t, "## Run it")
	var out, errs bytes.Buffer
	if code := run(context.Background(), []string{"demo"}, strings.NewReader(""), &out, &errs); code != exitOK {
		t.Fatalf("exit code %d: %s", code, errs.String())
	}
	shows(t, out.String(), excerpt)
}

// TestReadmeShowsWhatAProofPrints: days of a seed are the same everywhere.
func TestReadmeShowsWhatAProofPrints(t *testing.T) {
	t.Parallel()
	const heading = "## Try to break it"
	_, command, _ := strings.Cut(sectionOf(t, heading), "    bin/awsmp ")
	command, _, _ = strings.Cut(command, "\n")
	var out, errs bytes.Buffer
	if code := run(context.Background(), strings.Fields(command), strings.NewReader(""), &out, &errs); code != exitOK {
		t.Fatalf("exit code %d: %s", code, errs.String())
	}
	shows(t, out.String(), excerptOf(t, heading))
}

// TestReadmeShowsWhatANodePrints follows the README's walk with a node of one machine, command by command.
func TestReadmeShowsWhatANodePrints(t *testing.T) {
	t.Parallel()
	section := sectionOf(t, "## Meter on one machine")
	dir := t.TempDir()
	if err := os.CopyFS(filepath.Join(dir, "examples"), os.DirFS("../../examples")); err != nil {
		t.Fatal(err)
	}
	printed := walked(t, dir, section, "    bin/awsmp ")
	excerpts := excerptsOf(t, "## Meter on one machine")
	if len(excerpts) != 2 {
		t.Fatalf("%d excerpts were found", len(excerpts))
	}
	shows(t, timeless(printed), timeless(strings.Join(excerpts, "")))
}

// TestOneMachineShowsWhatTheDeskPrints follows the walk at the desk, as it stands in docs/one-machine.md.
func TestOneMachineShowsWhatTheDeskPrints(t *testing.T) {
	t.Parallel()
	section := sectionIn(t, "../../docs/one-machine.md", "## The desk")
	_, usage, found := strings.Cut(section, "```csv\n")
	usage, _, closed := strings.Cut(usage, "```")
	_, at, begins := strings.Cut(section, "begins at `--at ")
	at, _, _ = strings.Cut(at, "`")
	if !found || !closed || !begins {
		t.Fatal("the section does not say what is imported, or when")
	}
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "desk.csv"), []byte(usage), 0o644); err != nil {
		t.Fatal(err)
	}
	printed := walked(t, dir, "    awsmp dev --at "+at+"\n"+section, "    awsmp ")
	excerpts := excerptsIn(t, section)
	if len(excerpts) != 2 {
		t.Fatalf("%d excerpts were found", len(excerpts))
	}
	shows(t, timeless(printed), timeless(strings.Join(excerpts, "")))
}

// timeless is a text without what goes on while the commands run: the clock, and what is left of a deadline.
func timeless(s string) string {
	s = regexp.MustCompile(`\d\d:\d\d:\d\d UTC`).ReplaceAllString(s, "hh:mm:ss UTC")
	return regexp.MustCompile(`\d\dh\d+m\d+s +`).ReplaceAllString(s, "HhMmSs ")
}

// walked is what the commands of a section print, each a line that begins with prefix, outside of what it shows as printed. The first begins a
// node, in dir.
func walked(t *testing.T, dir, section, prefix string) string {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	command := func(args ...string) *exec.Cmd {
		return &exec.Cmd{Path: self, Args: append([]string{"awsmp"}, args...), Dir: dir}
	}
	var printed strings.Builder
	steps := 0
	shown := false
	for line := range strings.Lines(section) {
		if strings.HasPrefix(line, "```") {
			shown = !shown
		}
		line, ours := strings.CutPrefix(line, prefix)
		if !ours || shown {
			continue
		}
		if steps++; steps == 1 {
			node := command(append(strings.Fields(line), "--addr", "127.0.0.1:0")...)
			if err := node.Start(); err != nil {
				t.Fatal(err)
			}
			defer func() {
				_ = node.Process.Signal(os.Interrupt)
				if err := node.Wait(); err != nil {
					t.Errorf("the node ended with %v", err)
				}
			}()
			if out, err := command("status", "--wait", "60s").CombinedOutput(); err != nil {
				t.Fatalf("%v: %s", err, out)
			}
			continue
		}
		out, err := command(strings.Fields(line)...).CombinedOutput()
		if err != nil {
			t.Fatalf("%s: %v: %s", line, err, out)
		}
		printed.Write(out)
	}
	if steps < 4 {
		t.Fatalf("only %d commands were found", steps)
	}
	return printed.String()
}

// sectionOf is a section of the README.
func sectionOf(t *testing.T, heading string) string {
	t.Helper()
	return sectionIn(t, "../../README.md", heading)
}

// sectionIn is a section of a file.
func sectionIn(t *testing.T, file, heading string) string {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	_, rest, found := strings.Cut(string(text), heading+"\n")
	if !found {
		t.Fatalf("%s has no section %s", file, heading)
	}
	section, _, _ := strings.Cut(rest, "\n## ")
	return section
}

// excerptOf is the first output that a section shows.
func excerptOf(t *testing.T, heading string) string {
	t.Helper()
	return excerptsOf(t, heading)[0]
}

// excerptsOf are all of them, one at least.
func excerptsOf(t *testing.T, heading string) []string {
	t.Helper()
	return excerptsIn(t, sectionOf(t, heading))
}

func excerptsIn(t *testing.T, section string) (excerpts []string) {
	t.Helper()
	for _, rest := range strings.Split(section, "```text\n")[1:] {
		excerpt, _, closed := strings.Cut(rest, "```")
		if !closed {
			t.Fatal("the section does not end its output")
		}
		excerpts = append(excerpts, excerpt)
	}
	if len(excerpts) == 0 {
		t.Fatal("the section shows no output")
	}
	return excerpts
}

// shows holds an excerpt against what was printed. Lines of three dots stand for what is left out.
func shows(t *testing.T, printed, excerpt string) {
	t.Helper()
	for _, line := range strings.Split(strings.TrimRight(excerpt, "\n"), "\n") {
		if strings.TrimSpace(line) == "..." {
			continue
		}
		at := strings.Index(printed, line+"\n")
		if at < 0 {
			t.Fatalf("this is not printed, or not in this order: %q", line)
		}
		printed = printed[at+len(line)+1:]
	}
}
