package main

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/spf13/pflag"
)

// triedWrongly is what is wrong with a Try of what a desk's command has said: it is a command that can be pasted, and nothing else. Of awsmp's own
// the line is parsed; of others it is known that they are some.
func triedWrongly(command, said string) error {
	if !slices.Contains([]string{"dlq", "dryrun", "explain", "late", "ledger", "preflight", "refused", "rejected", "status", "verify"}, command) {
		return nil
	}
	for line := range strings.Lines(said) {
		try, is := strings.CutPrefix(strings.TrimSuffix(line, "\n"), "Try: ")
		if !is {
			continue
		}
		if err := pasted(try); err != nil {
			return fmt.Errorf("nobody can paste %q: %w", try, err)
		}
	}
	return nil
}

func pasted(line string) error {
	for _, other := range []string{"aws ", "export ", "ls ", "mkdir ", "look for a way from here to ", "name another file, or bring back a copy"} { // no command mends a network or a disk
		if strings.HasPrefix(line, other) {
			return nil
		}
	}
	words, err := shellWords(line)
	if err != nil {
		return err
	}
	if words[0] != "awsmp" {
		return errors.New("it begins with no command")
	}
	cmd, rest, err := newRootCommand().Find(words[1:])
	if err != nil {
		return err
	}
	if err := cmd.ParseFlags(rest); errors.Is(err, pflag.ErrHelp) {
		return nil
	} else if err != nil {
		return err
	}
	return cmd.ValidateArgs(cmd.Flags().Args())
}

// shellWords takes a line apart as a shell does, as far as package desk quotes.
func shellWords(line string) (words []string, err error) {
	var b strings.Builder
	quoted, begun := false, false
	for i := 0; i < len(line); i++ {
		switch c := line[i]; {
		case c == '\'':
			quoted, begun = !quoted, true
		case quoted:
			b.WriteByte(c)
		case c == '\\' && i+1 < len(line):
			i++
			b.WriteByte(line[i])
			begun = true
		case c == ' ':
			if begun {
				words = append(words, b.String())
			}
			b.Reset()
			begun = false
		case strings.IndexByte("`$&|;<>()\"*?", c) >= 0:
			return nil, fmt.Errorf("a shell reads %q in its own way", c)
		default:
			b.WriteByte(c)
			begun = true
		}
	}
	if quoted {
		return nil, errors.New("a quote is open")
	}
	if begun {
		words = append(words, b.String())
	}
	if len(words) == 0 {
		return nil, errors.New("it is empty")
	}
	return words, nil
}

// TestPasted: what triedWrongly is to find.
func TestPasted(t *testing.T) {
	t.Parallel()
	for line, good := range map[string]bool{
		"awsmp late list": true, "awsmp late list --help": true, "awsmp explain usage-late --store 'my folder'": true, "awsmp dlq redrive work-dlq --yes": true,
		"aws sts get-caller-identity": true, "awsmp late list shows all": false, "awsmp lately": false, "awsmp late list --nothing": false,
		"leave one of them out": false, "--stack name": false, "awsmp ledger --store <folder>": false, "awsmp ledger --store 'my folder": false, "": false,
	} {
		if err := triedWrongly("late", "awsmp: no\nTry: "+line+"\n"); (err == nil) != good {
			t.Errorf("%s: %v", line, err)
		}
	}
	if triedWrongly("import", "Try: fill that cell\n") != nil {
		t.Error("import is about files")
	}
}
