package dev

import (
	"errors"
	"net/http"
	"time"

	"github.com/awsmp/metering/internal/node"
)

// Clock is the answer of GET /v1/clock.
type Clock struct {
	Now    time.Time `json:"now"`
	Offset string    `json:"offset"` // how far it runs ahead of real time, as "36h0m0s"
}

// Move is the body of POST /v1/clock: one of the two.
type Move struct {
	Advance string    `json:"advance,omitempty"` // a duration, as "90m"
	To      time.Time `json:"to,omitzero"`
}

const moveHint = `send {"advance": "90m"} or {"to": "2026-03-10T15:00:00Z"}`

func (m *Machine) clockEndpoint(w http.ResponseWriter, r *http.Request) {
	if r.Method == http.MethodPost {
		m.postClock(w, r)
		return
	}
	answer(w, http.StatusOK, Clock{Now: m.clock.Now(), Offset: m.offset()})
}

func (m *Machine) offset() string { return m.clock.Offset().Round(time.Second).String() }

// postClock moves the clock. The answer comes when every stage on the way has run; a caller that goes away stops it.
func (m *Machine) postClock(w http.ResponseWriter, r *http.Request) {
	var move Move
	if err := readCommand(w, r, &move); err != nil {
		fail(w, http.StatusBadRequest, err.Error(), moveHint)
		return
	}
	var by time.Duration
	var err error
	switch {
	case (move.Advance == "") == move.To.IsZero():
		err = errors.New("one of advance and to is needed")
	case move.Advance != "":
		by, err = time.ParseDuration(move.Advance)
	}
	if err != nil {
		fail(w, http.StatusBadRequest, err.Error(), moveHint)
		return
	}
	var a node.Advanced
	if move.Advance != "" {
		a, err = m.node.Advance(r.Context(), by)
	} else {
		a, err = m.node.AdvanceTo(r.Context(), move.To)
	}
	switch {
	case err == nil:
		answer(w, http.StatusOK, a)
	case errors.Is(err, node.ErrPast):
		fail(w, http.StatusConflict, err.Error(), "move it forward, or begin anew with another data folder: awsmp dev --data other-data --at TIME")
	case errors.Is(err, node.ErrStopping):
		fail(w, http.StatusServiceUnavailable, err.Error(), "start awsmp dev again, and advance from there")
	case r.Context().Err() != nil: // nobody hears it
	default:
		broken(w, err)
	}
}
