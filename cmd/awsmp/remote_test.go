package main

import (
	"bytes"
	"context"
	"encoding/json"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/awsmp/metering/internal/dev"
)

// A node that ran on while the program was replaced does not know the new endpoints, and says so as it always has.
func TestANodeOfAnOlderRelease(t *testing.T) {
	t.Parallel()
	node := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		if r.URL.Path == "/v1/clock" {
			_, _ = w.Write([]byte(`{"now": "2026-03-10T15:20:00Z", "offset": "0s"}`))
			return
		}
		w.WriteHeader(http.StatusNotFound)
		_ = json.NewEncoder(w).Encode(dev.Problem{Error: r.URL.Path + " is not served here", Hint: "GET / lists what is"})
	}))
	t.Cleanup(node.Close)
	for _, args := range []string{"refused list", "refused retry --license l-1", "events send license-updated", "events send agreement-ended"} {
		var out, errs bytes.Buffer
		code := run(context.Background(), append(strings.Fields(args), "--node", node.URL), strings.NewReader(""), &out, &errs)
		want := "awsmp: the node at " + node.URL + " is of an older release\nTry: stop it, and start awsmp dev again\n"
		if code != exitError || errs.String() != want {
			t.Errorf("%s: %d %q", args, code, errs.String())
		}
	}
}

func TestAddressOf(t *testing.T) {
	t.Parallel()
	for address, want := range map[string]string{
		"127.0.0.1:8787": "http://127.0.0.1:8787", "[::1]:8787": "http://[::1]:8787",
		"0.0.0.0:8787": "http://127.0.0.1:8787 exposed", "[::]:8787": "http://127.0.0.1:8787 exposed", "192.0.2.7:8787": "http://192.0.2.7:8787 exposed",
	} {
		a, err := net.ResolveTCPAddr("tcp", address)
		if err != nil {
			t.Fatal(err)
		}
		got, exposed := addressOf(a)
		if exposed {
			got += " exposed"
		}
		if got != want {
			t.Errorf("%s: %s, want %s", address, got, want)
		}
	}
}
