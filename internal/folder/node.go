package folder

import (
	"context"
	"encoding/json"
	"fmt"
	"strconv"
)

// Node is what a folder's node goes by, from one start to the next, for programs that work on its store beside it or without it too.
type Node struct {
	ProductCode string // of calls for products of the old kind; empty where no node was ever started
	LockHours   int    // 1 where no node was ever started
}

// Settings of the store that keep a Node, and how it was started.
const (
	productSetting = "product-code"
	lockSetting    = "lock-hours"
	startSetting   = "node-flags"
)

// NodeOf is what the node of a store's folder goes by.
func NodeOf(ctx context.Context, s Settings) (Node, error) {
	product, err := s.Setting(ctx, productSetting)
	var lock string
	if err == nil {
		lock, err = s.Setting(ctx, lockSetting)
	}
	n := Node{ProductCode: product, LockHours: 1}
	if err == nil && lock != "" {
		n.LockHours, err = strconv.Atoi(lock)
	}
	if err != nil {
		return n, fmt.Errorf("read the node's settings: %w", err)
	}
	return n, nil
}

// KeepNode keeps what a node goes by.
func KeepNode(ctx context.Context, s Settings, n Node) error {
	err := s.SetSetting(ctx, productSetting, n.ProductCode)
	if err == nil {
		err = s.SetSetting(ctx, lockSetting, strconv.Itoa(max(1, n.LockHours)))
	}
	if err != nil {
		return fmt.Errorf("keep the node's settings: %w", err)
	}
	return nil
}

// StartOf is the flags that the folder's last node was started with, beside those of the folder and of the clock: a start with them is one of
// the same node, at the same address. Each is a word of the command line; there is none where no node was started.
func StartOf(ctx context.Context, s Settings) (flags []string, err error) {
	text, err := s.Setting(ctx, startSetting)
	if err == nil && text != "" {
		err = json.Unmarshal([]byte(text), &flags)
	}
	if err != nil {
		return nil, fmt.Errorf("read how the node was started: %w", err)
	}
	return flags, nil
}

// KeepStart keeps the flags that a node is started with.
func KeepStart(ctx context.Context, s Settings, flags []string) error {
	text, err := json.Marshal(flags)
	if err == nil {
		err = s.SetSetting(ctx, startSetting, string(text))
	}
	if err != nil {
		return fmt.Errorf("keep how the node is started: %w", err)
	}
	return nil
}
