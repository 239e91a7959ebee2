package costs

import (
	"encoding/json"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestAgainst(t *testing.T) {
	t.Parallel()
	label, send := Class{"cleanup", "UpdateItem", "table usage"}, Class{"aggregator", "SendMessageBatch", "queue cleanup"}
	written := Section{{label, Tally{Requests: 1000, Units: 1000, IndexUnits: 1000}}, {send, Tally{Requests: 10, Entries: 100}}}
	for name, test := range map[string]struct {
		now  Section
		want []string
	}{
		"the same":           {written, nil},
		"a tenth more":       {Section{{label, Tally{Requests: 1100, Units: 1000, IndexUnits: 1000}}, written[1]}, nil},
		"more than a tenth":  {Section{{label, Tally{Requests: 1101, Units: 1000, IndexUnits: 1000}}, written[1]}, []string{"cleanup UpdateItem table usage: requests grew by 10.1 % from 1000 to 1101"}},
		"entries":            {Section{written[0], {send, Tally{Requests: 10, Entries: 200}}}, []string{"aggregator SendMessageBatch queue cleanup: entries grew by 100.0 % from 100 to 200"}},
		"units":              {Section{{label, Tally{Requests: 1000, Units: 2000, IndexUnits: 3000}}, written[1]}, []string{"cleanup UpdateItem table usage: units grew by 100.0 % from 1000 to 2000", "cleanup UpdateItem table usage: index units grew by 200.0 % from 1000 to 3000"}},
		"items where none":   {Section{{label, Tally{Requests: 1000, Units: 1000, IndexUnits: 1000, Items: 1}}, written[1]}, []string{"cleanup UpdateItem table usage: items grew by all of it from 0 to 1"}},
		"less by a fifth":    {Section{{label, Tally{Requests: 800, Units: 1000, IndexUnits: 1000}}, written[1]}, []string{"cleanup UpdateItem table usage: requests fell by 20.0 % from 1000 to 800"}},
		"a class is new":     {append(Section{{Class{"cleanup", "GetItem", "table usage"}, Tally{Requests: 3}}}, written...), []string{"cleanup GetItem table usage is new: 3 requests"}},
		"a class is gone":    {written[:1], []string{"aggregator SendMessageBatch queue cleanup is gone: it had 10 requests"}},
		"another stage asks": {Section{written[0], {Class{"discoverer", send.Operation, send.Resource}, written[1].Tally}}, []string{"discoverer SendMessageBatch queue cleanup is new: 10 requests", "aggregator SendMessageBatch queue cleanup is gone: it had 10 requests"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if diff := cmp.Diff(test.want, test.now.Against(written)); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestBookIsReadBack(t *testing.T) {
	t.Parallel()
	want := Book{
		"busy":  {{Class{"cleanup", "UpdateItem", "table usage"}, Tally{Requests: 1, Units: 1.5}}, {Class{"discoverer", "Query", "table usage"}, Tally{Requests: 2}}},
		"quiet": {{Class{"cleanup", "PutLogEvents", "log"}, Tally{Bytes: 7}}},
	}
	text, err := want.encode()
	if err != nil {
		t.Fatal(err)
	}
	var got Book
	if err := json.Unmarshal(text, &got); err != nil {
		t.Fatalf("%v\n%s", err, text)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}
