package demo_test

import (
	"flag"
	"os"
	"testing"
)

// TestMain draws fewer files than rapid does by itself: each plays a day through every stage. The simulation plays thousands (docs/proof.md), and
// -rapid.checks=1000 plays more here.
func TestMain(m *testing.M) {
	if f := flag.Lookup("rapid.checks"); f.Value.String() == f.DefValue {
		_ = f.Value.Set(files)
	}
	os.Exit(m.Run())
}
