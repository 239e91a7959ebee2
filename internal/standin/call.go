package standin

import (
	"encoding/json"
	"maps"
	"net/http"
	"path"
	"slices"
	"strings"
)

// Call is one request as a Proxy saw it.
type Call struct {
	Service   string // dynamodb, sqs or marketplacemetering; empty where no X-Amz-Target is sent
	Operation string // as the API names it, such as UpdateItem; method and path where no X-Amz-Target is sent
	Resource  string // table, table/index or queue; several tables sorted and joined by commas; a call's product code
	Entries   int    // in the request: requests of a batch or transaction, messages of a SendMessageBatch, usage records; else 0
	Body      []byte // of the request

	// What follows is known after the answer, and zero before it.
	Status    int     // HTTP status of the answer, also of one that was lost
	Exception string  // of an answer that reports one, such as ConditionalCheckFailedException
	Items     int     // in the answer: items of a page, messages received
	Capacity  float64 // units consumed, where the request asked for them
	Lost      bool    // the target answered, and the caller did not hear it
}

// request is what of all requests' bodies is looked at.
type request struct {
	TableName, IndexName, QueueURL, QueueName, ProductCode string
	RequestItems                                           map[string]json.RawMessage
	TransactItems                                          []map[string]struct{ TableName string }
	Entries, UsageRecords                                  []json.RawMessage
}

// readCall tells what is asked. A body that is no JSON, or has other shapes, leaves what it would have told empty.
func readCall(r *http.Request, body []byte) Call {
	c := Call{Operation: r.Method + " " + r.URL.Path, Body: body}
	prefix, operation, targeted := strings.Cut(r.Header.Get("X-Amz-Target"), ".")
	if !targeted {
		return c
	}
	c.Service, c.Operation = serviceOf(prefix), operation
	var q request
	_ = json.Unmarshal(body, &q)
	switch {
	case len(q.RequestItems) > 0:
		c.Resource = strings.Join(slices.Sorted(maps.Keys(q.RequestItems)), ",")
		for _, of := range q.RequestItems {
			c.Entries += entries(of)
		}
	case len(q.TransactItems) > 0:
		tables := map[string]bool{}
		for _, item := range q.TransactItems {
			for _, action := range item {
				tables[action.TableName] = true
			}
		}
		c.Resource, c.Entries = strings.Join(slices.Sorted(maps.Keys(tables)), ","), len(q.TransactItems)
	case q.TableName != "":
		c.Resource = path.Join(q.TableName, q.IndexName)
	case q.QueueURL != "":
		c.Resource = path.Base(q.QueueURL)
	default:
		c.Resource = q.QueueName + q.ProductCode
	}
	c.Entries += len(q.Entries) + len(q.UsageRecords)
	return c
}

func serviceOf(prefix string) string {
	switch {
	case strings.HasPrefix(prefix, "DynamoDB_"):
		return "dynamodb"
	case prefix == "AmazonSQS":
		return "sqs"
	case prefix == "AWSMPMeteringService":
		return "marketplacemetering"
	}
	return prefix
}

// entries counts one table's part of a batch: a list of writes, or the Keys to get.
func entries(of json.RawMessage) int {
	var writes []json.RawMessage
	if json.Unmarshal(of, &writes) == nil {
		return len(writes)
	}
	var get struct{ Keys []json.RawMessage }
	_ = json.Unmarshal(of, &get)
	return len(get.Keys)
}

// answered adds what the answer tells.
func (c *Call) answered(status int, header http.Header, body []byte) {
	var a struct {
		Type             string `json:"__type"`
		Count            int
		Messages         []json.RawMessage
		ConsumedCapacity json.RawMessage
	}
	_ = json.Unmarshal(body, &a)
	c.Status, c.Items, c.Capacity = status, a.Count+len(a.Messages), capacity(a.ConsumedCapacity)
	if status >= http.StatusBadRequest {
		c.Exception = a.Type[strings.LastIndexByte(a.Type, '#')+1:]
		if c.Exception == "" {
			c.Exception, _, _ = strings.Cut(header.Get("X-Amzn-Errortype"), ":")
		}
	}
}

// capacity sums an answer's consumed capacity: one table's, or a list of them.
func capacity(of json.RawMessage) (sum float64) {
	type units struct{ CapacityUnits float64 }
	var one units
	var many []units
	if json.Unmarshal(of, &one) != nil {
		_ = json.Unmarshal(of, &many)
	}
	for _, u := range append(many, one) {
		sum += u.CapacityUnits
	}
	return sum
}
