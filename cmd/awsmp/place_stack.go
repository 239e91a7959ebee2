package main

import (
	"github.com/spf13/cobra"

	"github.com/awsmp/metering/internal/desk"
	"github.com/awsmp/metering/internal/stack"
)

// openStack opens the desk of the stack that is named.
func (p *place) openStack(cmd *cobra.Command) (*desk.Desk, func() error, error) {
	s, err := p.findStack(cmd)
	if err != nil {
		return nil, nil, err
	}
	return s.Desk(), func() error { return nil }, nil
}

// findStack finds the stack that is named. What the place's scan options say holds for whatever reads a whole table of it.
func (p *place) findStack(cmd *cobra.Command) (*stack.Stack, error) {
	s, err := stack.Open(cmd.Context(), p.stack, p.region, p.scans)
	if err != nil {
		return nil, p.unopened(cmd, err)
	}
	p.region = s.Region // which every command that is printed names
	return s, nil
}
