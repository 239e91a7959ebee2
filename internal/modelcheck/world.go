package modelcheck

import (
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"github.com/awsmp/metering/internal/marketplace"
	"github.com/awsmp/metering/internal/metering"
	"github.com/awsmp/metering/internal/store/memory"
	"github.com/awsmp/metering/simulator"
)

// answer is what an effect came to.
type answer struct {
	value any
	err   error
	says  string
}

// answerOf numbers an answer.
func (m *model) answerOf(value any, err error) int32 {
	return m.answers.id(fmt.Sprintf("%s %v", text(value), err), func() answer { return answer{value: value, err: err, says: says(value, err)} })
}

// text is a value in full.
func text(v any) string {
	b, err := json.Marshal(v)
	if err != nil {
		panic(err) // unreachable: values hold text, numbers, booleans, and maps and lists of them
	}
	return fmt.Sprintf("%T %s", v, b)
}

// tables are the usage and aggregated-usage tables, and beside them what sellers have written, for the law alone.
type tables struct {
	Rows    []metering.Row
	Records []metering.Record
	Sold    []sold
}

// sold is what a seller's row holds, by its own count.
type sold struct {
	License, SortKey string
	Quantity         metering.Quantity
	Held             []int64 // every whole quantity so far
	Flushes          []taken
	Gone             bool
}

type taken struct {
	Token    string
	Quantity int64
}

func (m *model) tablesOf(t *tables) int32 { return m.tables.id(text(t), func() *tables { return t }) }

// store is the content as a store of its own.
func (t *tables) store() *memory.Store {
	s := memory.New(memory.Options{})
	must(s.PutRows(background, t.Rows))
	for _, r := range t.Records {
		must(s.PutRecord(background, r))
	}
	return s
}

// read takes the content of a store back, with what sellers have written.
func (m *model) read(s *memory.Store, sales []sold) *tables {
	t := &tables{Sold: sales}
	for license, err := range s.Licenses(background) {
		must(err)
		for r, err := range s.LicenseRows(background, license) {
			must(err)
			t.Rows = append(t.Rows, r)
		}
		for r, err := range s.LicenseRecords(background, license) {
			must(err)
			t.Records = append(t.Records, r)
		}
	}
	return t
}

// change is what an effect on the tables or the service comes to.
type change struct {
	answer int32
	after  int32
	breach *Breach
}

// apply does an effect on the tables, once for each content of theirs.
func (m *model) apply(on, effect int32) change {
	key := [2]int32{on, effect}
	if c, met := m.changes[key]; met {
		return c
	}
	before, e := m.tables.list[on], m.effects.list[effect]
	s := before.store()
	value := e.do(s)
	c := change{answer: m.answerOf(value, nil), after: on}
	if e.kind == writes {
		sales := before.Sold
		if e.sells != nil {
			sales = e.sells(before)
		}
		after := m.read(s, sales)
		c.after = m.tablesOf(after)
		c.breach = m.lawful(before, after, e)
	}
	m.changes[key] = c
	return c
}

// service is the Marketplace: the calls that it has taken, as far as they have changed its ledger, and the ledger.
type service struct {
	calls  []taking
	ledger []simulator.Billed
}

type taking struct {
	call   metering.Call
	moment int
}

// open is a simulator that has taken the calls, with a client, and a hand on its clock.
func (m *model) open(s *service) (sim *simulator.Simulator, api marketplace.API, at *int) {
	at = new(int)
	sim, err := simulator.New(simulator.Options{Now: func() time.Time { return m.Clock[*at].At }})
	must(err)
	for _, g := range m.Groups {
		if metering.LegacyLicense(g.License) {
			must(sim.PutCustomer(simulator.Customer{Identifier: LegacyIdentifier, AccountID: g.Account, Active: true}))
		} else {
			must(sim.PutLicense(simulator.License{ARN: g.License, AccountID: g.Account}))
		}
	}
	api = marketplace.New(marketplace.Options{
		Region: "us-east-1", Endpoint: simulator.Endpoint, ProductCode: simulator.DefaultProductCode, HTTPClient: sim.Client(),
	})
	for _, t := range s.calls {
		*at = t.moment
		_, err := api.Call(background, t.call)
		must(err)
	}
	return sim, api, at
}

// LegacyIdentifier is the customer identifier of rows whose license is no ARN.
const LegacyIdentifier = "legacy-customer"

// call makes a call, once for each ledger of the service and moment.
func (m *model) call(on, effect int32, moment int) change {
	key := [3]int32{on, effect, int32(moment)}
	if c, met := m.called[key]; met {
		return c
	}
	before, e := m.services.list[on], m.effects.list[effect]
	sim, api, at := m.open(before)
	*at = moment
	value, err := api.Call(background, *e.call)
	after := before
	if ledger := sim.Ledger(); len(ledger) > len(before.ledger) {
		after = &service{calls: append(slices.Clip(before.calls), taking{*e.call, moment}), ledger: ledger}
	}
	c := change{answer: m.answerOf(value, err), after: m.serviceOf(after)}
	m.called[key] = c
	return c
}

func (m *model) serviceOf(s *service) int32 {
	type line struct {
		License, Customer, Account, Dimension string
		Hour                                  int64
		Quantity                              int64
	}
	var lines []line // not when it was billed: a resend is the same
	for _, b := range s.ledger {
		lines = append(lines, line{b.LicenseARN, b.CustomerIdentifier, b.AccountID, b.Dimension, b.Hour.Unix(), b.Quantity})
	}
	return m.services.id(text(lines), func() *service { return s })
}

// with is a queue with one more message.
func (m *model) with(queue, message int32) int32 {
	return m.requeue(m.queued, queue, message, func(list []int32, i int) []int32 { return slices.Insert(list, i, message) })
}

// without is a queue with one message less.
func (m *model) without(queue, message int32) int32 {
	return m.requeue(m.taken, queue, message, func(list []int32, i int) []int32 { return slices.Delete(list, i, i+1) })
}

func (m *model) requeue(known map[[2]int32]int32, queue, message int32, change func(list []int32, i int) []int32) int32 {
	key := [2]int32{queue, message}
	id, met := known[key]
	if !met {
		list := slices.Clone(m.queues.list[queue])
		i, _ := slices.BinarySearch(list, message)
		id = m.queueOf(change(list, i))
		known[key] = id
	}
	return id
}

func (m *model) queueOf(list []int32) int32 {
	return m.queues.id(fmt.Sprint(list), func() []int32 { return list })
}

func (m *model) messageOf(msg Message) int32 {
	return m.messages.id(msg.Topic+" "+msg.Body, func() Message { return msg })
}

// must is for what cannot fail: tables in memory, and a simulator that is set up right.
func must(err error) {
	if err != nil {
		panic(err)
	}
}
