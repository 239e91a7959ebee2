package main

import (
	"bytes"
	"context"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/awsmp/metering/internal/dev"
	"github.com/awsmp/metering/internal/folder"
)

// Several alarms cost one look at the place: what runs there is asked no more than for one alarm.
func TestExplainLooksOnce(t *testing.T) {
	t.Parallel()
	var mu sync.Mutex
	var asked []string
	node := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		mu.Lock()
		defer mu.Unlock()
		asked = append(asked, r.URL.Path)
		if r.URL.Path == "/v1/counted" {
			_ = json.NewEncoder(w).Encode(dev.CountedHours{})
			return
		}
		_ = json.NewEncoder(w).Encode(dev.Status{})
	}))
	t.Cleanup(node.Close)
	dir := t.TempDir()
	store, err := folder.OpenStore(t.Context(), dir)
	if err != nil {
		t.Fatal(err)
	}
	if err := store.Close(); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(folder.Lock(dir), []byte(`{"process": 1, "node": "`+node.URL+`"}`), 0o644); err != nil {
		t.Fatal(err)
	}
	look := func(alarms ...string) []string {
		mu.Lock()
		asked = nil
		mu.Unlock()
		var out, errs bytes.Buffer
		if code := run(context.Background(), append([]string{"explain", "--store", dir}, alarms...), strings.NewReader(""), &out, &errs); code != exitOK || errs.Len() > 0 {
			t.Fatalf("%v ends with %d: %s", alarms, code, errs.String())
		}
		if shown := strings.Count(out.String(), "Now, at the folder "+dir); shown != len(alarms) {
			t.Errorf("of %v %d are shown:\n%s", alarms, shown, out.String())
		}
		mu.Lock()
		defer mu.Unlock()
		slices.Sort(asked)
		return slices.Clone(asked)
	}
	one := look("work-age")
	if !slices.Contains(one, "/v1/counted") {
		t.Fatalf("the node was not looked at: %v", one)
	}
	if diff := cmp.Diff(one, look("work-age", "usage-late", "submission-paused")); diff != "" {
		t.Errorf("asked for one (-), for three (+):\n%s", diff)
	}
}
