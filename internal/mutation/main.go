// Command mutation breaks the code on purpose, in one place after the other, and shows that the tests notice: a test that cannot fail
// proves nothing. Each break is one that a careless colleague could make, and loses, doubles or hides money. The work tree is left as it is.
//
// It ends with 0 if every break was noticed, with 1 if one survived, and with 2 if something could not be tried.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"regexp"
	"time"
)

// leastLimit is how long tests may take at least before they count as hung: a machine may be busy.
const leastLimit = time.Minute

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	code := run(ctx, os.Args[1:], table(), os.Stdout, os.Stderr)
	stop()
	os.Exit(code)
}

// run is the command: its arguments and the mutations that there are.
func run(ctx context.Context, args []string, all []mutation, out, errs io.Writer) int {
	flags := flag.NewFlagSet("mutation", flag.ContinueOnError)
	flags.SetOutput(errs)
	pattern := flags.String("run", "", "only mutations whose file and name, as -list shows them, match this `regexp`")
	list := flags.Bool("list", false, "list the mutations and try none")
	asJSON := flags.Bool("json", false, "print a JSON document a line")
	if err := flags.Parse(args); err != nil {
		return 2
	}
	chosen, err := choose(all, *pattern)
	if err != nil {
		fmt.Fprintln(errs, "mutation:", err)
		return 2
	}
	if *list {
		for _, m := range chosen {
			fmt.Fprintf(out, "%s\n    %s\n", m.where(), m.breaks)
		}
		return 0
	}
	var rep report = lines{out}
	if *asJSON {
		rep = documents{json.NewEncoder(out)}
	}
	s, err := tryAll(ctx, chosen, rep)
	switch {
	case err != nil:
		fmt.Fprintln(errs, "mutation:", err)
		return 2
	case s.faults > 0:
		return 2
	case s.survived > 0:
		return 1
	}
	return 0
}

func choose(all []mutation, pattern string) ([]mutation, error) {
	like, err := regexp.Compile(pattern)
	if err != nil {
		return nil, fmt.Errorf("choose mutations: %w", err)
	}
	var chosen []mutation
	for _, m := range all {
		if like.MatchString(m.where()) {
			chosen = append(chosen, m)
		}
	}
	if len(chosen) == 0 {
		return nil, fmt.Errorf("choose mutations: none matches %q. Try: -list", pattern)
	}
	return chosen, nil
}

// tryAll tries the mutations below the module that the command is run in.
func tryAll(ctx context.Context, chosen []mutation, rep report) (score, error) {
	var s score
	root, err := moduleRoot()
	if err != nil {
		return s, err
	}
	temp, err := os.MkdirTemp("", "mutation-*")
	if err != nil {
		return s, fmt.Errorf("make a folder for changed files: %w", err)
	}
	defer os.RemoveAll(temp)
	start, r := time.Now(), newRunner(root, temp, leastLimit)
	for i, m := range chosen {
		rep.begin(i+1, len(chosen), m)
		res := r.try(ctx, m)
		if err := ctx.Err(); err != nil {
			return s, fmt.Errorf("stopped after %d of %d mutations: %w", i, len(chosen), err)
		}
		rep.end(res)
		s.add(res)
	}
	rep.close(s, time.Since(start))
	return s, nil
}

// moduleRoot is the folder of the go.mod above the working folder.
func moduleRoot() (string, error) {
	at, err := os.Getwd()
	if err != nil {
		return "", fmt.Errorf("find the module: %w", err)
	}
	for {
		if _, err := os.Stat(filepath.Join(at, "go.mod")); err == nil {
			return at, nil
		}
		up := filepath.Dir(at)
		if up == at {
			return "", errors.New("find the module: no go.mod above the working folder; run this inside the repository")
		}
		at = up
	}
}
