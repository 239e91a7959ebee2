package dev

import (
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"time"
)

// Letters is the answer of GET /v1/dead-letters: messages that failed too often, which stay set aside.
type Letters struct {
	Queue   string   `json:"queue"`
	Letters []Letter `json:"letters"` // the one that was set aside first in front
}

// Letter is one of them.
type Letter struct {
	ID     string    `json:"id"`
	SentAt time.Time `json:"sentAt"`
	Body   string    `json:"body"`
}

// Redrive is the body of POST /v1/dead-letters/redrive.
type Redrive struct {
	Queue string `json:"queue"` // as GET /v1/status names it
}

// Redriven is the answer.
type Redriven struct {
	Moved int `json:"moved"` // messages that are in their queue again
}

// maxLetters bounds the dead letters that are listed at once.
const maxLetters = 1000

var queueNames = []string{"work", "deprovision", "cleanup"}

func (m *Machine) getLetters(w http.ResponseWriter, r *http.Request) {
	q, err := queryOf(r, "queue", "limit")
	limit := maxLetters
	if err == nil && q.Get("limit") != "" {
		limit, err = strconv.Atoi(q.Get("limit"))
		if err != nil || limit < 1 || limit > maxLetters {
			err = fmt.Errorf("limit is %q, and must be 1 to %d", q.Get("limit"), maxLetters)
		}
	}
	if err == nil {
		err = knownQueue(q.Get("queue"))
	}
	if err != nil {
		fail(w, http.StatusBadRequest, err.Error(), "as in /v1/dead-letters?queue=work")
		return
	}
	found, err := m.node.Letters(q.Get("queue"), limit)
	if err != nil {
		broken(w, err)
		return
	}
	list := Letters{Queue: q.Get("queue"), Letters: []Letter{}}
	for _, d := range found {
		list.Letters = append(list.Letters, Letter{ID: d.ID, SentAt: d.SentAt, Body: d.Body})
	}
	answer(w, http.StatusOK, list)
}

func knownQueue(name string) error {
	switch {
	case name == "":
		return errors.New("queue is needed")
	case !slices.Contains(queueNames, name):
		return fmt.Errorf("there is no queue %q", name)
	}
	return nil
}

func (m *Machine) postRedrive(w http.ResponseWriter, r *http.Request) {
	var body Redrive
	err := readCommand(w, r, &body)
	if err == nil {
		err = knownQueue(body.Queue)
	}
	if err != nil {
		fail(w, http.StatusBadRequest, err.Error(), `send {"queue": "work"}, or deprovision, or cleanup`)
		return
	}
	moved, err := m.node.Redrive(r.Context(), body.Queue)
	switch {
	case err == nil:
		answer(w, http.StatusOK, Redriven{moved})
	case r.Context().Err() != nil: // nobody hears it
	default:
		broken(w, err)
	}
}
