package simulator

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"time"
)

const controlPrefix = "/_simulator/"

// endpoints are the control endpoints, for tests in other languages than Go. Each line is also the hint of its errors.
const endpoints = `GET    /_simulator/ledger
GET    /_simulator/stats
GET    /_simulator/calls
PUT    /_simulator/licenses     {"licenseArn": "arn:aws:license-manager::111122223333:license:l-1", "accountId": "111122223333", "activatedAt": "2026-03-10T14:00:00Z", "deprovisionedAt": "2026-03-11T10:00:00Z"}
PUT    /_simulator/customers    {"customerIdentifier": "cust-1", "accountId": "111122223333", "active": true}
PUT    /_simulator/suspensions  {"accountId": "111122223333", "suspended": true}
POST   /_simulator/tokens       {"accountId": "111122223333", "licenseArn": "arn:aws:license-manager::111122223333:license:l-1", "ttl": "4h"}
GET    /_simulator/first-click?to=http://127.0.0.1:8787/register&accountId=111122223333&licenseArn=arn:aws:license-manager::111122223333:license:l-1
PUT    /_simulator/dimensions   {"name": "api_calls"}
DELETE /_simulator/dimensions   {"name": "api_calls"}
POST   /_simulator/faults       {"kind": "throttle", "times": 2, "probability": 1, "operation": "BatchMeterUsage", "latency": "2s", "from": "2026-03-10T14:00:00Z", "until": "2026-03-10T15:00:00Z"}
DELETE /_simulator/faults/{id}
DELETE /_simulator/faults
GET    /_simulator/clock
PUT    /_simulator/clock        {"now": "2026-03-31T23:30:00Z"}
POST   /_simulator/clock        {"advance": "1h30m"}
POST   /_simulator/reset
`

func (s *Simulator) controlRoutes() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /_simulator/ledger", func(w http.ResponseWriter, _ *http.Request) { controlJSON(w, http.StatusOK, s.Ledger()) })
	mux.HandleFunc("GET /_simulator/stats", func(w http.ResponseWriter, _ *http.Request) { controlJSON(w, http.StatusOK, s.Stats()) })
	mux.HandleFunc("GET /_simulator/calls", func(w http.ResponseWriter, _ *http.Request) { controlJSON(w, http.StatusOK, s.Calls()) })
	mux.Handle("PUT /_simulator/licenses", take(s.PutLicense))
	mux.Handle("PUT /_simulator/customers", take(s.PutCustomer))
	mux.Handle("PUT /_simulator/suspensions", take(s.controlSuspension))
	mux.Handle("POST /_simulator/tokens", give(s.controlToken))
	mux.HandleFunc("GET /_simulator/first-click", s.controlFirstClick)
	mux.Handle("PUT /_simulator/dimensions", take(func(d dimensionName) error { return d.apply(s.DefineDimension) }))
	mux.Handle("DELETE /_simulator/dimensions", take(func(d dimensionName) error { return d.apply(s.UndefineDimension) }))
	mux.Handle("POST /_simulator/faults", give(s.controlFault))
	mux.HandleFunc("DELETE /_simulator/faults", func(w http.ResponseWriter, _ *http.Request) {
		s.ClearFaults()
		controlJSON(w, http.StatusOK, struct{}{})
	})
	mux.HandleFunc("DELETE /_simulator/faults/{id}", s.removeFault)
	mux.HandleFunc("GET /_simulator/clock", func(w http.ResponseWriter, _ *http.Request) { controlJSON(w, http.StatusOK, clockTime{s.Now()}) })
	mux.Handle("PUT /_simulator/clock", give(s.controlSetTime))
	mux.Handle("POST /_simulator/clock", give(s.controlAdvance))
	mux.HandleFunc("POST /_simulator/reset", func(w http.ResponseWriter, _ *http.Request) {
		controlDone(w, struct{}{}, s.Reset(), "GET /_simulator/ledger shows what is still there")
	})
	mux.HandleFunc("GET /_simulator/{$}", func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, endpoints) })
	mux.HandleFunc("/_simulator/", func(w http.ResponseWriter, r *http.Request) {
		controlError(w, http.StatusNotFound, fmt.Sprintf("there is no %s %s", r.Method, r.URL.Path), "GET /_simulator/ lists the control endpoints")
	})
	return mux
}

func (s *Simulator) controlSuspension(in struct {
	AccountID string `json:"accountId"`
	Suspended *bool  `json:"suspended"`
}) error {
	if !buyersAccount(in.AccountID) || in.Suspended == nil {
		return errors.New("accountId must be the buyer's 12 digits, suspended must be true or false")
	}
	return s.SuspendAccount(in.AccountID, *in.Suspended)
}

type issuedAnswer struct {
	Token string `json:"token"`
}

func (s *Simulator) controlToken(in struct {
	Token
	TTL duration `json:"ttl"`
}) (issuedAnswer, error) {
	in.Token.TTL = time.Duration(in.TTL)
	token, err := s.IssueToken(in.Token)
	return issuedAnswer{token}, err
}

type dimensionName struct {
	Name string `json:"name"`
}

func (d dimensionName) apply(f func(string) error) error {
	if d.Name == "" {
		return errors.New("name is missing")
	}
	return f(d.Name)
}

type faultAnswer struct {
	ID int `json:"id"`
}

func (s *Simulator) controlFault(in struct {
	Kind        FaultKind `json:"kind"`
	Operation   string    `json:"operation"`
	Probability float64   `json:"probability"`
	Times       int       `json:"times"`
	From        time.Time `json:"from"`
	Until       time.Time `json:"until"`
	Latency     duration  `json:"latency"`
}) (faultAnswer, error) {
	id, err := s.inject(Fault{
		Kind:        in.Kind,
		Operation:   in.Operation,
		Probability: in.Probability,
		Times:       in.Times,
		From:        in.From,
		Until:       in.Until,
		Latency:     time.Duration(in.Latency),
	})
	return faultAnswer{id}, err
}

func (s *Simulator) removeFault(w http.ResponseWriter, r *http.Request) {
	id, err := strconv.Atoi(r.PathValue("id"))
	if err != nil || s.removeFaults(func(f *injected) bool { return f.id == id }) == 0 {
		controlError(w, http.StatusNotFound, fmt.Sprintf("there is no fault %q in force", r.PathValue("id")), "POST /_simulator/faults answers with the id")
		return
	}
	controlJSON(w, http.StatusOK, struct{}{})
}

type clockTime struct {
	Now time.Time `json:"now"`
}

func (s *Simulator) controlSetTime(in clockTime) (clockTime, error) {
	if in.Now.IsZero() {
		return clockTime{}, errors.New("now is missing")
	}
	err := s.SetTime(in.Now)
	return clockTime{s.Now()}, err
}

func (s *Simulator) controlAdvance(in struct {
	Advance duration `json:"advance"`
}) (clockTime, error) {
	if in.Advance == 0 {
		return clockTime{}, errors.New("advance is missing")
	}
	err := s.Advance(time.Duration(in.Advance))
	return clockTime{s.Now()}, err
}

// duration is written as Go writes it: "90s", "1h30m".
type duration time.Duration

func (d *duration) UnmarshalText(text []byte) error {
	parsed, err := time.ParseDuration(string(text))
	*d = duration(parsed)
	return err
}
