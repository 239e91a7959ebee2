package main

import (
	"bufio"
	"bytes"
	"encoding/json"
	"io"
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/awsmp/metering/internal/desk"
	"github.com/awsmp/metering/internal/folder"
)

// storeIn makes a folder with an empty store.
func storeIn(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	store, err := folder.OpenStore(t.Context(), dir)
	if err == nil {
		err = store.Close()
	}
	if err != nil {
		t.Fatal(err)
	}
	return dir
}

// TestWatch shows a status again and again until it is interrupted, which is its end and no failure. What goes into a pipe has nothing that steers a terminal.
func TestWatch(t *testing.T) {
	t.Parallel()
	dir := storeIn(t)
	for _, args := range [][]string{nil, {"--json"}} {
		t.Run(strings.Join(args, " "), func(t *testing.T) {
			t.Parallel()
			cmd := exec.CommandContext(t.Context(), "awsmp", append([]string{"status", "--store", dir, "--watch", "--every", "1s"}, args...)...)
			var errs bytes.Buffer
			cmd.Stderr = &errs
			out, err := cmd.StdoutPipe()
			if err == nil {
				err = cmd.Start()
			}
			if err != nil {
				t.Fatal(err)
			}
			blocks := 0
			for lines := bufio.NewScanner(out); lines.Scan(); {
				line := lines.Text()
				if strings.ContainsRune(line, '\x1b') {
					t.Errorf("a pipe got %q", line)
				}
				if args != nil {
					var s desk.Status
					if err := json.Unmarshal([]byte(line), &s); err != nil || s.Place != "folder "+dir {
						t.Errorf("line %q: %v", line, err)
					}
				}
				if args != nil || strings.HasPrefix(line, "Clock: ") {
					if blocks++; blocks == 2 {
						if err := cmd.Process.Signal(os.Interrupt); err != nil {
							t.Fatal(err)
						}
					}
				}
			}
			if err := cmd.Wait(); err != nil || blocks < 2 || errs.Len() > 0 {
				t.Errorf("it ended with %v after %d blocks: %s", err, blocks, errs.String())
			}
		})
	}
}

// TestReaderGoesAway closes the pipe that a command writes to. It ends without a word, as a command of a shell does.
func TestReaderGoesAway(t *testing.T) {
	t.Parallel()
	dir := storeIn(t)
	cmd := exec.CommandContext(t.Context(), "awsmp", "status", "--store", dir, "--watch", "--every", "1s")
	var errs bytes.Buffer
	cmd.Stderr = &errs
	out, err := cmd.StdoutPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	if _, err := io.ReadFull(out, make([]byte, 6)); err != nil {
		t.Fatal(err)
	}
	if err := out.Close(); err != nil {
		t.Fatal(err)
	}
	if err := cmd.Wait(); err == nil || errs.Len() > 0 {
		t.Errorf("it ended with %v: %s", err, errs.String())
	}
}
