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
	flags.StringVar(&r.data, "data", folder.Default, "folder of the node")
	flags.StringVar(&r.node, "node", "", "address of the node, as http://127.0.0.1:8787, in place of a folder (default: $"+nodeVariable+")")
}

// find is the node's address, and how it is called in messages.
func (r *remote) find() (address, name string, err error) {
	if r.set != nil && r.set.Changed("node") && r.set.Changed("data") {
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

// where is the flag by which another command goes to the same node.
func (r *remote) where() string {
	if r.node != "" {
		return " --node " + word(r.node)
	}
	return dataFlag(r.data)
}

// errAbsent is that no node answers.
var errAbsent = errors.New("no node runs")

// call asks the node and returns its answer's body.
func (r *remote) call(ctx context.Context, method, path string, body any) ([]byte, error) {
	address, name, err := r.find()
	if err != nil {
		return nil, err
	}
	start := "awsmp dev"
	if r.data != folder.Default {
		start += dataFlag(r.data)
	}
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
		text, err := r.call(ctx, http.MethodGet, path, nil)
		if !errors.Is(err, errAbsent) || !time.Now().Before(deadline) {
			return text, err
		}
		select {
		case <-time.After(again):
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
}

// show writes a node's answer as it came, for programs, or in words.
func show[T any](out io.Writer, asJSON bool, text []byte, err error, words func(T) error) error {
	if err == nil && asJSON {
		_, err = out.Write(text)
		return err
	}
	answer, err := decode[T](text, err)
	if err != nil {
		return err
	}
	return words(answer)
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
