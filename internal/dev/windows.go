package dev

import (
	"context"
	"fmt"
	"time"
)

// Window is a license in its last hour.
type Window struct {
	License string    `json:"licenseArn"`
	Account string    `json:"customerAWSAccountId"`
	Expiry  time.Time `json:"expiry"`
	Left    string    `json:"left"` // until then, as "41m10s"; negative where it is over and the license is about to be closed for good
}

// windows are the licenses in their last hour, the one that ends first in front.
func (m *Machine) windows(ctx context.Context, now time.Time) ([]Window, error) {
	list, err := m.store.Deprovisioning(ctx)
	if err != nil {
		return nil, fmt.Errorf("look at the last hours: %w", err)
	}
	windows := make([]Window, len(list))
	for i, d := range list {
		windows[i] = Window{License: d.License, Account: d.Account, Expiry: d.Expiry.UTC(), Left: d.Expiry.Sub(now).Round(time.Second).String()}
	}
	return windows, nil
}
