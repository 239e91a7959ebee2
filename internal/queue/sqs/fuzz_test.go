package sqs_test

import (
	"bytes"
	"context"
	"crypto/md5"
	"encoding/hex"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"slices"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	awssqs "github.com/aws/aws-sdk-go-v2/service/sqs"

	"github.com/awsmp/metering/internal/awsapi"
	"github.com/awsmp/metering/internal/queue/sqs"
)

// inTurn is a service that answers with one body after the other, and then with nothing.
type inTurn struct{ bodies [][]byte }

func (s *inTurn) Do(r *http.Request) (*http.Response, error) {
	body := []byte("{}")
	if len(s.bodies) > 0 {
		body, s.bodies = s.bodies[0], s.bodies[1:]
	}
	return &http.Response{
		StatusCode: http.StatusOK, Header: http.Header{"Content-Type": {"application/x-amz-json-1.0"}}, Request: r, ContentLength: int64(len(body)), Body: io.NopCloser(bytes.NewReader(body)),
	}, nil
}

func (s *inTurn) queue() *sqs.Queue {
	q := sqs.New(awssqs.New(awssqs.Options{
		Region: "eu-west-1", BaseEndpoint: aws.String("http://127.0.0.1:1"), HTTPClient: s, Retryer: aws.NopRetryer{}, Credentials: aws.AnonymousCredentials{},
	}), "http://127.0.0.1:1/111122223333/work")
	q.Sleep = func(context.Context, time.Duration) error { return nil }
	return q
}

// An answer that is none of the service's leaves open what was taken. The second try is made only after a first answer that could be read, and
// what that said stands.
func TestOddAnswers(t *testing.T) {
	t.Parallel()
	taken := `{"Successful":[{"Id":"0"}],"Failed":[{"Id":"1","SenderFault":true}]}`
	for _, odd := range []string{`{"Successful":[{"MessageId":"m"}]}`, `{"Successful":[null,{}]}`, `{"Successful":[{"Id":null}],"Failed":[{}]}`, `{`, `[]`} {
		refused, err := (&inTurn{[][]byte{[]byte(odd)}}).queue().Send(t.Context(), []string{"one", "two", "three"})
		if class := awsapi.ClassOf(err); class != awsapi.Unavailable || refused != nil {
			t.Errorf("%s: refused %v, class %q of %v", odd, refused, class, err)
		}
		refused, err = (&inTurn{[][]byte{[]byte(taken), []byte(odd)}}).queue().Send(t.Context(), []string{"one", "two", "three"})
		if err != nil || !slices.Equal(refused, []int{1, 2}) {
			t.Errorf("%s the second time: refused %v, %v", odd, refused, err)
		}
	}
}

// idsIn are the ids that an answer names in one of its lists, as another reader of JSON sees it; where it does not see it as the SDK may,
// ok is false.
func idsIn(body []byte, list string) (ids []string, ok bool) {
	var answer map[string]json.RawMessage
	if json.NewDecoder(bytes.NewReader(body)).Decode(&answer) != nil {
		return nil, false
	}
	var entries []map[string]any
	if raw, there := answer[list]; there && json.Unmarshal(raw, &entries) != nil {
		return nil, false
	}
	for _, e := range entries {
		id, _ := e["Id"].(string)
		ids = append(ids, id)
	}
	return ids, true
}

// FuzzSend: of whatever the service answers to a batch, a message counts as sent only if one of the answers names it as taken and not as
// failed too; every other is refused, once and by its place, or the whole batch is an error (case 44).
func FuzzSend(f *testing.F) {
	bodies := []string{"one", "two", "three"}
	sum := func(body string) string {
		s := md5.Sum([]byte(body))
		return `","MessageId":"m","MD5OfMessageBody":"` + hex.EncodeToString(s[:]) + `"}`
	}
	all := `{"Id":"0` + sum(bodies[0]) + `,{"Id":"1` + sum(bodies[1]) + `,{"Id":"2` + sum(bodies[2])
	failed := func(id, fault string) string { return `{"Id":"` + id + `","Code":"x","SenderFault":` + fault + `}` }
	for _, pair := range [][2]string{
		{`{"Successful":[` + all + `],"Failed":[]}`, ``}, {`{"Successful":[],"Failed":[` + failed("0", "true") + `,` + failed("2", "false") + `]}`, `{"Successful":[{"Id":"2` + sum(bodies[2]) + `]}`},
		{`{"Successful":[` + all + `],"Failed":[` + failed("1", "false") + `]}`, `{"Failed":[` + failed("1", "null") + `]}`}, {`{"Successful":[{"Id":"7` + sum("x") + `,{"Id":null},null],"Failed":null}`, `{`},
		{`{"Successful":[{"Id":"0` + sum("other") + `]}`, ``}, {`{"successful":[` + all + `]}`, `[]`}, {`{"Successful":[{"Id":"00"},{"Id":"+1"}]}`, `<html>`},
	} {
		f.Add([]byte(pair[0]), []byte(pair[1]))
	}
	f.Fuzz(func(t *testing.T, first, second []byte) {
		refused, err := (&inTurn{[][]byte{first, second}}).queue().Send(t.Context(), bodies)
		if err != nil {
			if _, known := errors.AsType[*awsapi.Error](err); !known || len(refused) > 0 {
				t.Errorf("%v, refused %v", err, refused)
			}
			return
		}
		if !slices.IsSorted(refused) || len(slices.Compact(slices.Clone(refused))) != len(refused) || slices.ContainsFunc(refused, func(i int) bool { return i < 0 || i >= len(bodies) }) {
			t.Fatalf("refused %v", refused)
		}
		for i := range bodies {
			id := string(rune('0' + i))
			taken := false
			for _, body := range [][]byte{first, second} {
				good, okGood := idsIn(body, "Successful")
				bad, okBad := idsIn(body, "Failed")
				taken = taken || !okGood || !okBad || slices.Contains(good, id) && !slices.Contains(bad, id)
			}
			if !slices.Contains(refused, i) && !taken {
				t.Errorf("message %d counts as sent by\n%s\n%s", i, first, second)
			}
		}
	})
}

// FuzzReceive: of whatever the service answers come deliveries or an error.
func FuzzReceive(f *testing.F) {
	f.Add([]byte(`{"Messages":[{"MessageId":"m","ReceiptHandle":"r","Body":"b","MD5OfBody":"92eb5ffee6ae2fec3ad71c777531578f","Attributes":{"ApproximateReceiveCount":"2","SentTimestamp":"1773151200000"}}]}`))
	f.Add([]byte(`{"Messages":[{"Attributes":{"ApproximateReceiveCount":"x","SentTimestamp":"-9223372036854775808"}},null]}`))
	f.Add([]byte(`{"Messages":{}}`))
	f.Fuzz(func(t *testing.T, body []byte) {
		deliveries, err := (&inTurn{[][]byte{body}}).queue().Receive(t.Context(), 10)
		if _, known := errors.AsType[*awsapi.Error](err); err != nil && (!known || len(deliveries) > 0) {
			t.Errorf("%v, %v", deliveries, err)
		}
	})
}
