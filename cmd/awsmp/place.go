package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/awsmp/metering/internal/desk"
	"github.com/awsmp/metering/internal/desk/local"
	"github.com/awsmp/metering/internal/folder"
	"github.com/awsmp/metering/internal/stack"
)

// stackVariable names the stack where no flag names a place.
const stackVariable = "AWSMP_STACK"

// place is where a command works: a deployed stack, the data folder of this machine, or for some commands a node that is named by its
// address.
type place struct {
	remote
	stack, region string
	// scans says how a whole table of a stack is read, and whom its price is told before. It is set before open.
	scans stack.Options
	// tablesOnly is set before open by a command that needs nothing of what runs at the place: then no node is asked.
	tablesOnly bool
}

// flags adds the flags by which a place is named.
func (p *place) flags(flags *pflag.FlagSet) {
	p.set = flags
	flags.StringVar(&p.stack, "stack", "", "a deployed metering stack, as awsmp-exampleproduct-metering (default: $"+stackVariable+")")
	flags.StringVar(&p.region, "region", "", "Region of the stack (default: that of the environment)")
	flags.StringVar(&p.data, "store", folder.Default, "data folder on this machine; --data means the same")
	flags.StringVar(&p.data, "data", folder.Default, "data folder on this machine; --store means the same")
	_ = flags.MarkHidden("data") // there is such a flag
}

// nodeFlag adds the flag that names a node by its address, after those of flags.
func (p *place) nodeFlag(flags *pflag.FlagSet) {
	flags.StringVar(&p.node, "node", "", "address of a node, as http://127.0.0.1:8787, in place of a folder (default: $"+nodeVariable+")")
}

// given reports whether a flag was given.
func (p *place) given(flag string) bool { return p.set != nil && p.set.Changed(flag) }

// settle decides which place is meant. It is called first, and may be called again.
func (p *place) settle(cmd *cobra.Command) error {
	folderGiven, byName := p.given("store") || p.given("data"), "--store"
	if p.given("data") {
		byName = "--data"
	}
	switch {
	case p.given("store") && p.given("data"):
		return misused(cmd, errors.New("--store and --data mean the same"))
	case p.given("stack") && folderGiven:
		return misused(cmd, errors.New("--stack excludes "+byName+": usage is on AWS or on this machine"))
	case p.given("stack") && p.given("node"):
		return misused(cmd, errors.New("--stack excludes --node: usage is on AWS or on this machine"))
	case p.given("node") && folderGiven:
		return misused(cmd, errors.New("--node excludes "+byName+": a node is named by its address or by its folder"))
	case folderGiven || p.given("node") || p.given("stack"):
	default:
		if p.takesNode() {
			p.node = cmp.Or(p.node, os.Getenv(nodeVariable))
		}
		p.stack = cmp.Or(p.stack, os.Getenv(stackVariable))
		if p.stack != "" && p.node != "" {
			return misused(cmd, fmt.Errorf("%s and %s name two places: name one with --stack, --store or --node", stackVariable, nodeVariable))
		}
	}
	if p.given("region") && p.stack == "" {
		return &failure{exitUsage, errors.New("--region is that of a stack, and none is named"), again(cmd, "--stack", "awsmp-exampleproduct-metering")}
	}
	return nil
}

func (p *place) takesNode() bool { return p.set != nil && p.set.Lookup("node") != nil }

// where is the flags by which another command goes to the same place, with a space before; empty for the default folder.
func (p *place) where() string {
	switch {
	case p.stack != "":
		where := " --stack " + desk.Word(p.stack)
		if p.region != "" {
			where += " --region " + desk.Word(p.region)
		}
		return where
	case p.node != "":
		return " --node " + desk.Word(p.node)
	case p.given("store") && p.data != folder.Default:
		return " --store " + desk.Word(p.data)
	}
	return dataFlag(p.data)
}

// open opens the desk at the place. The caller calls what is returned beside it when it is done.
func (p *place) open(cmd *cobra.Command) (*desk.Desk, func() error, error) {
	if err := p.settle(cmd); err != nil {
		return nil, nil, err
	}
	if p.stack != "" {
		return p.openStack(cmd)
	}
	if p.node != "" {
		return nil, nil, &failure{exitUsage, errors.New("this reads the tables themselves, which a node's address does not lead to: name its data folder"), cmd.CommandPath() + " --store " + folder.Default}
	}
	if address := os.Getenv(nodeVariable); address != "" && !p.given("store") && !p.given("data") {
		return nil, nil, &failure{exitUsage, fmt.Errorf("%s names the node %s, and this reads the tables themselves, which a node's address does not lead to: name its data folder", nodeVariable, entire(address)),
			cmd.CommandPath() + " --store " + folder.Default}
	}
	open := local.Open
	if p.tablesOnly {
		open = local.OpenTables
	}
	d, closeDesk, err := open(cmd.Context(), p.data)
	if err != nil {
		return nil, nil, p.unopened(cmd, err)
	}
	if d.Silent != "" {
		fmt.Fprintf(cmd.ErrOrStderr(), "The node at %s does not answer: what follows is of its store alone.\n", entire(d.Silent))
	}
	d.Flags = p.where()
	return d, closeDesk, nil
}

// unopened is why a place did not open.
func (p *place) unopened(cmd *cobra.Command, err error) error {
	switch {
	case errors.Is(err, context.Canceled):
		return err
	case errors.Is(err, local.ErrNoStore):
		if !p.given("store") && !p.given("data") {
			err = fmt.Errorf("%w; another place is named with --store FOLDER or --stack NAME", err)
		}
		return &failure{exitError, err, "awsmp dev" + dataFlag(p.data)}
	case errors.Is(err, syscall.ENOTDIR):
		return &failure{exitError, fmt.Errorf("%s is a file: a data folder is one that holds usage.db", desk.Word(p.data)), cmd.CommandPath() + " --store " + desk.Word(filepath.Dir(p.data))}
	case errors.Is(err, fs.ErrPermission):
		return &failure{exitError, fmt.Errorf("%w; this user needs read and write access", err), "ls -ld " + desk.Word(p.data)}
	}
	f := hinted(err)
	if p.stack != "" && p.region == "" && strings.Contains(f.try, "AWS_REGION=") {
		f.try = again(cmd, "--region", "us-east-1")
	}
	if named := strings.Fields(f.try); len(named) == 4 && named[0] == "--stack" && named[2] == "--region" { // the one that there is
		if errors.Join(cmd.Flags().Set("stack", named[1]), cmd.Flags().Set("region", named[3])) == nil {
			f.try = again(cmd)
		}
	}
	return f
}
