package standin_test

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/awsmp/metering/internal/standin"
)

// startAll makes TestNoneIsLeftBehind start every stand-in, say so and wait to be killed.
const startAll = "STANDIN_START_ALL"

// A test binary that is killed leaves no stand-in behind.
func TestNoneIsLeftBehind(t *testing.T) {
	t.Parallel()
	moto, dynalite, fauxqs, chromium := standin.Moto(t), standin.Dynalite(t), standin.Fauxqs(t), standin.Chromium(t)
	if os.Getenv(startAll) != "" {
		fmt.Println("started", moto, dynalite, fauxqs, chromium)
		select {}
	}
	binary := exec.Command(os.Args[0], "-test.run=^TestNoneIsLeftBehind$")
	binary.Env = append(os.Environ(), startAll+"=1")
	held, theirs, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	binary.Stderr = theirs // the stand-ins hold it too
	stdout, err := binary.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := binary.Start(); err != nil {
		t.Fatal(err)
	}
	_ = theirs.Close()
	started := false
	for lines := bufio.NewScanner(stdout); !started && lines.Scan(); {
		started = strings.HasPrefix(lines.Text(), "started ")
	}
	if !started {
		t.Error("the stand-ins did not start")
	}
	if err := binary.Process.Kill(); err != nil {
		t.Error(err)
	}
	if _, err := io.Copy(io.Discard, held); err != nil { // ends with the last of its holders
		t.Error(err)
	}
	if err := binary.Wait(); err == nil {
		t.Error("the binary ended by itself")
	}
}
