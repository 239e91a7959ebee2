package dev

import (
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/awsmp/metering/internal/metering"
	"github.com/awsmp/metering/internal/pipeline"
)

// Retry is the body of POST /v1/refused/retry. All but the license narrow it down.
type Retry struct {
	License   string `json:"licenseArn"`
	Account   string `json:"customerAWSAccountId,omitempty"`
	Dimension string `json:"dimension,omitempty"`
	Hour      string `json:"hour,omitempty"` // as 2026-03-10T14
	DryRun    bool   `json:"dryRun,omitempty"`
}

// Retried is the answer.
type Retried struct {
	pipeline.Retried
	NextSubmission time.Time `json:"nextSubmission,omitzero"` // which sends what was reopened; missing while the node does not run
}

const retryHint = `send {"licenseArn": "arn:aws:license-manager::…", "dimension": "api_calls", "hour": "2026-03-10T14", "dryRun": true}; only licenseArn is needed`

// postRetry lets a license's refused records be sent once more. A caller that goes away stops it between two records; asked again, it
// goes on from there.
func (m *Machine) postRetry(w http.ResponseWriter, r *http.Request) {
	var body Retry
	err := readCommand(w, r, &body)
	if err == nil && body.License == "" {
		err = errors.New("licenseArn is needed")
	}
	what := pipeline.Retry{License: body.License, Account: body.Account, Dimension: body.Dimension, DryRun: body.DryRun}
	if err == nil && body.Hour != "" {
		var h metering.Hour
		if h, err = metering.ParseHour(body.Hour); err != nil {
			err = fmt.Errorf("hour: %w", err)
		}
		what.Hour = &h
	}
	if err != nil {
		fail(w, http.StatusBadRequest, err.Error(), retryHint)
		return
	}
	if !m.known(w, r, body.License) {
		return
	}
	done, err := m.retrier().Run(r.Context(), what)
	switch {
	case err == nil:
		answer(w, http.StatusOK, Retried{done, m.node.State().Next[metering.SubmitSchedule.Name]})
	case r.Context().Err() != nil: // nobody hears it
	default:
		broken(w, err)
	}
}
