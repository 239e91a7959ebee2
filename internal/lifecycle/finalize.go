package lifecycle

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/awsmp/metering/internal/faults"
	"github.com/awsmp/metering/internal/metering"
)

// Finalizer ends the last hours that are over.
type Finalizer struct {
	Subscribers Subscribers
	Now         func() time.Time
	Log         *slog.Logger
}

// Finalized is what a run of the finalizer did.
type Finalized struct {
	Ended int `json:"ended"` // licenses that are inactive from now on
}

// Run ends the last hour of each license for which it is over, as it stands when it is written (F31). One that fails holds up no
// other; the next run tries it again.
func (f *Finalizer) Run(ctx context.Context) (Finalized, error) {
	var done Finalized
	now := f.Now()
	list, err := f.Subscribers.Deprovisioning(ctx)
	if err != nil {
		err = fmt.Errorf("list the licenses in their last hour: %w", err)
	}
	var failed faults.List
	for _, d := range list {
		if d.Expiry.After(now) {
			continue
		}
		if over := ctx.Err(); over != nil {
			err = errors.Join(err, fmt.Errorf("not every last hour that is over was ended: %w", over))
			break
		}
		s, changed, fault := f.Subscribers.ChangeSubscriber(ctx, metering.FinalizeAt(d.License, d.Account, now))
		switch {
		case fault != nil:
			failed.Add(fmt.Errorf("end the last hour of license %s: %w", metering.Masked(d.License), fault))
		case changed:
			done.Ended++
			logger(f.Log).Info("last hour ended", "license", s.License, "account", s.Account, "status", s.Status)
		}
	}
	return done, errors.Join(err, failed.Err())
}
