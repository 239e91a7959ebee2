package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"strings"
	"time"

	"github.com/spf13/pflag"

	"github.com/awsmp/metering/internal/desk"
	"github.com/awsmp/metering/internal/dev"
	"github.com/awsmp/metering/internal/folder"
)

// nodeVariable names the node where no flag does.
const nodeVariable = "AWSMP_NODE"

// remote is a node that a command talks to.
type remote struct {
	node, data string
	set        *pflag.FlagSet
}

func (r *remote) flags(flags *pflag.FlagSet) {
	r.set = flags
	dataFlags(flags, &r.data, "folder of the node")
	flags.StringVar(&r.node, "node", "", "address of the node, as http://127.0.0.1:8787, in place of a folder (default: $"+nodeVariable+")")
}

// dataFlags adds the flag that names a data folder, and in secret the one that means the same elsewhere.
func dataFlags(flags *pflag.FlagSet, data *string, usage string) {
	flags.StringVar(data, "data", folder.Default, usage)
	flags.StringVar(data, "store", folder.Default, usage+"; --data means the same")
	_ = flags.MarkHidden("store") // there is such a flag
}

// errTwoFolders is what is wrong where a folder is named twice.
func errTwoFolders() error {
	return &failure{exitUsage, errors.New("--store and --data mean the same"), "leave one of them out"}
}

// find is the node's address, and how it is called in messages.
func (r *remote) find() (address, name string, err error) {
	if r.set != nil && r.set.Changed("data") && r.set.Changed("store") {
		return "", "", errTwoFolders()
	}
	if r.set != nil && r.set.Changed("node") && (r.set.Changed("data") || r.set.Changed("store")) {
		return "", "", &failure{exitUsage, errors.New("--node excludes --data: a node is named by its address or by its folder"), "leave one of them out"}
	}
	if r.node == "" {
		r.node = os.Getenv(nodeVariable)
	}
	if r.node != "" {
		address := strings.TrimRight(r.node, "/")
		if !strings.Contains(address, "://") {
			address = "http://" + address
		}
		return address, "at " + address, nil
	}
	owner, err := dev.OwnerOf(r.data)
	return owner.Node, "on the folder " + r.data, err
}

// errAbsent is that no node answers.
var errAbsent = errors.New("no node runs")

// call asks the node and returns its answer's body.
func (r *remote) call(ctx context.Context, method, path string, body any) ([]byte, error) {
	text, err := r.ask(ctx, method, path, body)
	return text, r.startable(ctx, err)
}

// startable is an error with the command that starts the node of the folder, where none runs on it.
func (r *remote) startable(ctx context.Context, err error) error {
	if !errors.Is(err, errAbsent) || r.node != "" {
		return err
	}
	f := hinted(err)
	f.try = startCommand(ctx, r.data)
	return f
}

func (r *remote) ask(ctx context.Context, method, path string, body any) ([]byte, error) {
	address, name, err := r.find()
	if err != nil {
		return nil, err
	}
	start := "awsmp dev" + dataFlag(r.data)
	absent := &failure{exitError, fmt.Errorf("%w %s", errAbsent, name), start}
	if address == "" {
		return nil, absent
	}
	var in io.Reader
	if body != nil {
		text, err := json.Marshal(body)
		if err != nil {
			return nil, err
		}
		in = bytes.NewReader(text)
	}
	request, err := http.NewRequestWithContext(ctx, method, address+path, in)
	if err != nil {
		return nil, &failure{exitUsage, fmt.Errorf("%q is no address of a node", r.node), "--node http://127.0.0.1:8787"}
	}
	request.Header.Set("Content-Type", "application/json")
	response, err := http.DefaultClient.Do(request)
	if ctx.Err() != nil {
		return nil, ctx.Err()
	}
	if err != nil {
		return nil, absent
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	if err != nil {
		return nil, fmt.Errorf("read the node's answer: %w", err)
	}
	if response.StatusCode == http.StatusOK || response.StatusCode == http.StatusMultiStatus { // who asks for several things looks at each
		return text, nil
	}
	var p dev.Problem
	if json.Unmarshal(text, &p) != nil || p.Error == "" {
		return nil, &failure{exitError, fmt.Errorf("what answers %s is no node: %s", name, response.Status), start}
	}
	if response.StatusCode == http.StatusNotFound && strings.HasSuffix(p.Error, " is not served here") {
		return nil, &failure{exitError, fmt.Errorf("the node %s is of an older release", name), "stop it, and start awsmp dev again"}
	}
	return nil, &failure{exitError, errors.New(p.Error), p.Hint}
}

// await calls the node until it is there, for up to patience.
func (r *remote) await(ctx context.Context, patience time.Duration, path string) ([]byte, error) {
	const again = 50 * time.Millisecond
	deadline := time.Now().Add(patience)
	for {
		text, err := r.ask(ctx, http.MethodGet, path, nil)
		if !errors.Is(err, errAbsent) || !time.Now().Before(deadline) {
			return text, r.startable(ctx, err)
		}
		select {
		case <-time.After(again):
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
}

func decode[T any](text []byte, err error) (T, error) {
	var v T
	if err == nil {
		if err = json.Unmarshal(text, &v); err != nil {
			err = fmt.Errorf("read the node's answer: %w", err)
		}
	}
	return v, err
}

// startCommand starts the node of a folder: as it was started last, where one was.
func startCommand(ctx context.Context, data string) string {
	start := "awsmp dev" + dataFlag(data)
	if _, err := os.Stat(folder.Store(data)); err != nil {
		return start
	}
	store, err := folder.OpenStore(ctx, data)
	if err != nil {
		return start // the start itself says why
	}
	defer func() { _ = store.Close() }() // nothing was written
	flags, err := folder.StartOf(ctx, store)
	if err != nil {
		return start
	}
	for _, f := range flags {
		start += " " + desk.Word(f)
	}
	return start
}
