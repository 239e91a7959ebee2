package dev

import (
	"context"
	"iter"
	"net/http"

	"github.com/awsmp/metering/internal/pipeline"
)

// Refusals is the answer of GET /v1/refused: the records that a retry would send once more.
type Refusals = pipeline.Refusals

func (m *Machine) getRefused(w http.ResponseWriter, r *http.Request) {
	q, err := queryOf(r, "license")
	if err != nil {
		fail(w, http.StatusBadRequest, err.Error(), "as in /v1/refused, or /v1/refused?license=arn:aws:license-manager::…")
		return
	}
	license := q.Get("license")
	if license != "" && !m.known(w, r, license) {
		return
	}
	list, err := m.refused(r.Context(), license)
	if err != nil {
		broken(w, err)
		return
	}
	answer(w, http.StatusOK, list)
}

// known reports whether there is usage of a license, and otherwise answers that there is none: a misspelt license has nothing refused either.
func (m *Machine) known(w http.ResponseWriter, r *http.Request, license string) bool {
	used, err := m.usedBy(r.Context(), license, 1)
	switch {
	case err != nil:
		broken(w, err)
	case len(used) == 0:
		fail(w, http.StatusNotFound, pipeline.ErrUnknownLicense.Error(), "awsmp refused list shows all")
	}
	return err == nil && len(used) > 0
}

// refused looks at what a retry of each license would do; at one only, where it is named.
func (m *Machine) refused(ctx context.Context, license string) (Refusals, error) {
	return m.retrier().Look(ctx, m.licenses(ctx, license))
}

// retrier lets refused records wait again.
func (m *Machine) retrier() *pipeline.Retrier {
	return &pipeline.Retrier{Records: m.store, ProductCode: m.options.ProductCode, Rules: m.rules, Now: m.clock.Now, Log: m.options.Log}
}

func (m *Machine) licenses(ctx context.Context, one string) iter.Seq2[string, error] {
	if one == "" {
		return m.store.Licenses(ctx)
	}
	return func(yield func(string, error) bool) { yield(one, nil) }
}
