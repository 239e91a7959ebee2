package dev

import "github.com/awsmp/metering/internal/node"

// Node is the machine's own, for tests that put into its queues what no stage would.
func (m *Machine) Node() *node.Node { return m.node }
