package costs

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"path"
	"strings"
	"sync"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
)

// schemaOf reads it from how a table is made.
func schemaOf(kind string, in *dynamodb.CreateTableInput) schema {
	s := schema{kind: kind, keys: names(in.KeySchema)}
	for _, i := range in.GlobalSecondaryIndexes {
		p := projection{keys: names(i.KeySchema)}
		p.attributes = append(append(append(p.attributes, s.keys...), p.keys...), i.Projection.NonKeyAttributes...)
		s.indexes = append(s.indexes, p)
	}
	return s
}

func names(keys []types.KeySchemaElement) (list []string) {
	for _, k := range keys {
		list = append(list, *k.AttributeName)
	}
	return list
}

// account is what one play is counted in.
type account struct {
	tables map[string]schema // by name
	queues map[string]string // kinds of queues, by name

	mu       sync.Mutex
	tallies  map[Class]*Tally
	items    map[string]Item // as they stand, by table and key
	problems []string
	told     float64 // units of tables as the stand-in counts them
	ours     float64 // the same, by our rules
}

func newAccount() *account {
	return &account{tables: map[string]schema{}, queues: map[string]string{}, tallies: map[Class]*Tally{}, items: map[string]Item{}}
}

func (a *account) count(c Class, t Tally) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.add(c, t)
}

func (a *account) add(c Class, t Tally) {
	if a.tallies[c] == nil {
		a.tallies[c] = &Tally{}
	}
	a.tallies[c].add(t)
}

// stored counts what the tables hold, with the service's own part of each item.
func (a *account) stored() {
	a.mu.Lock()
	defer a.mu.Unlock()
	for at, i := range a.items {
		name, _, _ := strings.Cut(at, "\n")
		a.add(Class{seller, kept, "table " + a.tables[name].kind}, Tally{Items: 1, Bytes: i.Size() + itemOverhead})
	}
}

// printer counts what a function prints: a log that is paid for by the byte, and in it metrics, paid for by the name and the
// dimensions.
type printer struct {
	account *account
	stage   string
}

func (p printer) Write(b []byte) (int, error) {
	p.account.count(Class{p.stage, "PutLogEvents", "log"}, Tally{Bytes: len(b)})
	var line struct {
		AWS struct {
			CloudWatchMetrics []struct {
				Dimensions [][]string
				Metrics    []struct{ Name string }
			}
		} `json:"_aws"`
	}
	if json.Unmarshal(b, &line) != nil { // the log is text
		return len(b), nil
	}
	for _, d := range line.AWS.CloudWatchMetrics {
		for _, dimensions := range d.Dimensions {
			for _, m := range d.Metrics {
				p.account.count(Class{p.stage, metricsMade, m.Name + " by " + strings.Join(dimensions, ", ")}, Tally{Requests: 1})
			}
		}
	}
	return len(b), nil
}

// meter is the HTTP client of one stage. It counts each attempt of a call and leads it to its stand-in; that costs no further hop as
// a proxy would. DynamoDB is asked more than the stage asks: for the units, and for the item as it is after an update. None of
// that changes what happens, and the stand-in checks no signature.
type meter struct {
	account          *account
	stage            string
	dynamo, sqs, mms string // base URLs
	client           *http.Client
}

func (m *meter) Do(r *http.Request) (*http.Response, error) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return nil, err
	}
	prefix, operation, _ := strings.Cut(r.Header.Get("X-Amz-Target"), ".")
	base := m.mms
	switch {
	case strings.HasPrefix(prefix, "DynamoDB_"):
		base = m.dynamo
		body, err = more(operation, body)
	case prefix == "AmazonSQS":
		base = m.sqs
	}
	if err != nil {
		return nil, err
	}
	at, err := url.Parse(base)
	if err != nil {
		return nil, err
	}
	r.URL.Scheme, r.URL.Host = at.Scheme, at.Host
	r.Body, r.ContentLength = io.NopCloser(bytes.NewReader(body)), int64(len(body))
	resp, err := m.client.Do(r)
	if err != nil {
		m.account.problem("%s %s: %v", m.stage, operation, err)
		return nil, err
	}
	answer, err := io.ReadAll(resp.Body)
	_ = resp.Body.Close()
	if err != nil {
		return nil, err
	}
	if resp.StatusCode != http.StatusOK {
		m.account.problem("%s %s: status %d: %.300s", m.stage, operation, resp.StatusCode, answer)
	}
	if err := m.account.book(m.stage, operation, body, answer); err != nil {
		m.account.problem("%s %s: %v", m.stage, operation, err)
	}
	resp.Body = io.NopCloser(bytes.NewReader(answer))
	return resp, nil
}

func (a *account) problem(format string, args ...any) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.problems = append(a.problems, fmt.Sprintf(format, args...))
}

// more asks DynamoDB for the units, and for the item after an update.
func more(operation string, body []byte) ([]byte, error) {
	ask := map[string]string{"ReturnConsumedCapacity": "TOTAL"}
	switch operation {
	case "UpdateItem":
		ask["ReturnValues"] = "ALL_NEW"
	case "PutItem", "GetItem", "Query", "BatchWriteItem":
	default:
		return body, nil
	}
	var request map[string]json.RawMessage
	if err := json.Unmarshal(body, &request); err != nil {
		return nil, err
	}
	for name, value := range ask {
		request[name] = json.RawMessage(`"` + value + `"`)
	}
	return json.Marshal(request)
}

// exchange is what of all requests and answers is looked at.
type exchange struct {
	TableName, IndexName, QueueURL string
	ConsistentRead                 bool
	Key, Item, Attributes          Item // Item of a PutItem stands in the request, of a GetItem in the answer
	RequestItems                   map[string][]struct{ PutRequest struct{ Item Item } }
	Items                          []Item
	Entries                        []struct{ MessageBody string }
	Messages                       []struct{ Body string }
	UsageRecords                   []json.RawMessage
	ConsumedCapacity               json.RawMessage
}

func (a *account) book(stage, operation string, request, answer []byte) error {
	var in, out exchange
	if err := json.Unmarshal(request, &in); err != nil {
		return err
	}
	if err := json.Unmarshal(answer, &out); err != nil {
		return err
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	c, t := Class{Stage: stage, Operation: operation}, Tally{Requests: 1}
	switch {
	case in.QueueURL != "":
		c.Resource = a.queues[path.Base(in.QueueURL)]
		t.Entries, t.Items = len(in.Entries), len(out.Messages)
		for _, e := range in.Entries {
			t.Bytes += len(e.MessageBody)
		}
		for _, m := range out.Messages {
			t.Bytes += len(m.Body)
		}
		t.Units = QueueUnits(t.Bytes)
	case len(in.UsageRecords) > 0:
		c.Resource, t.Entries = "service", len(in.UsageRecords)
	default:
		name := in.TableName
		for n, puts := range in.RequestItems {
			name, t.Entries = n, len(puts)
		}
		s, known := a.tables[name]
		if !known {
			return fmt.Errorf("table %q is none of this play", name)
		}
		c.Resource = "table " + s.kind
		if in.IndexName != "" {
			c.Resource = "index " + s.kind + "/" + in.IndexName
		}
		a.units(s, name, operation, in, out, &t)
		if err := a.compare(in.IndexName == "", t.Units, out.ConsumedCapacity); err != nil {
			return err
		}
	}
	if c.Resource == "" {
		return fmt.Errorf("%.200s names no resource of this play", request)
	}
	a.add(c, t)
	return nil
}

// units counts what a call of DynamoDB takes, and keeps the items that it leaves.
func (a *account) units(s schema, table, operation string, in, out exchange, t *Tally) {
	write := func(key, item Item) {
		at := table + "\n" + text(key.Only(s.keys))
		units, indexes := s.writeUnits(a.items[at], item)
		a.items[at] = item
		t.Units, t.IndexUnits = t.Units+units, t.IndexUnits+indexes
	}
	switch operation {
	case "UpdateItem":
		write(in.Key, out.Attributes)
	case "PutItem":
		write(in.Item, in.Item)
	case "BatchWriteItem":
		for _, put := range in.RequestItems[table] {
			write(put.PutRequest.Item, put.PutRequest.Item)
		}
	case "GetItem":
		t.Units = ReadUnits(out.Item.Size(), in.ConsistentRead)
		if out.Item != nil {
			t.Items = 1
		}
	default:
		bytes := 0
		for _, i := range out.Items {
			bytes += i.Size()
		}
		t.Items, t.Units = len(out.Items), ReadUnits(bytes, in.ConsistentRead)
	}
}

// compare keeps the units of tables as the stand-in counts them beside ours. It does not know those of indexes (docs/stand-ins.md).
func (a *account) compare(table bool, ours float64, told json.RawMessage) error {
	type capacity struct{ CapacityUnits float64 }
	var list []capacity
	if len(told) > 0 && told[0] == '{' {
		list = make([]capacity, 1)
		if err := json.Unmarshal(told, &list[0]); err != nil {
			return err
		}
	} else if err := json.Unmarshal(told, &list); err != nil {
		return fmt.Errorf("read capacity %s: %w", told, err)
	}
	for _, c := range list {
		if table {
			a.told += c.CapacityUnits
		}
	}
	if table {
		a.ours += ours
	}
	return nil
}
