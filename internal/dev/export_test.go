package dev

import "github.com/awsmp/metering/internal/node"

// Node is the machine's own, for tests that put into its queues what no stage would.
func (m *Machine) Node() *node.Node { return m.node }

// CutChunks makes the chunks of requests smaller, so that a test of several of them is short.
func (m *Machine) CutChunks(lines int) { m.chunk = lines }
