package folder

import (
	"context"
	"fmt"
	"strconv"
)

// Node is what the node of a folder was last started with, for programs that work on its store beside it or without it.
type Node struct {
	ProductCode string // of calls for products of the old kind; empty where none was ever started
	LockHours   int
}

// Settings of the store that keep a Node.
const (
	productSetting = "product-code"
	lockSetting    = "lock-hours"
)

// NodeOf is the node that a store's folder was last started with.
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

// KeepNode keeps what a node is started with.
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
