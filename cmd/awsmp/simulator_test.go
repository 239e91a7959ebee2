package main

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// startSimulator runs the command on a free port until the test is over, and returns its endpoint and introduction.
func startSimulator(t *testing.T, args ...string) (endpoint, introduction string) {
	t.Helper()
	out, wait := runSimulator(t.Context(), args...)
	lines := bufio.NewScanner(out)
	for lines.Scan() {
		introduction += lines.Text() + "\n"
		if _, after, ok := strings.Cut(lines.Text(), "Everything else: curl "); ok {
			endpoint = strings.TrimSuffix(after, "/_simulator/")
			break
		}
	}
	if endpoint == "" {
		t.Fatalf("the command ended: %v\n%s", wait(), introduction)
	}
	go func() { _, _ = io.Copy(io.Discard, out) }() // ends with the command
	return endpoint, introduction
}

func runSimulator(ctx context.Context, args ...string) (out io.Reader, wait func() error) {
	read, write := io.Pipe()
	root := &cobra.Command{Use: "awsmp", SilenceErrors: true, SilenceUsage: true}
	root.AddCommand(newSimulatorCommand())
	root.SetOut(write)
	root.SetArgs(append([]string{"simulator", "--addr", "127.0.0.1:0"}, args...))
	ended := make(chan error, 1)
	go func() {
		err := root.ExecuteContext(ctx)
		_ = write.Close()
		ended <- err
	}()
	return read, func() error { return <-ended }
}

func ledgerOf(t *testing.T, endpoint string) []map[string]any {
	t.Helper()
	res, err := http.Get(endpoint + "/_simulator/ledger")
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	var ledger []map[string]any
	if err := json.NewDecoder(res.Body).Decode(&ledger); err != nil {
		t.Fatal(err)
	}
	return ledger
}

// shell runs a line as a user would paste it, without any AWS settings of the machine's own.
func shell(t *testing.T, stdin string, args ...string) string {
	t.Helper()
	if _, err := exec.LookPath(args[0]); err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), args[0], args[1:]...)
	cmd.Stdin = strings.NewReader(stdin)
	own := slices.DeleteFunc(os.Environ(), func(v string) bool { return strings.HasPrefix(v, "AWS_") })
	cmd.Env = append(own, "AWS_EC2_METADATA_DISABLED=true", "AWS_CONFIG_FILE=/dev/null", "AWS_SHARED_CREDENTIALS_FILE=/dev/null",
		"AWS_PAGER=", "NO_PROXY=127.0.0.1", "no_proxy=127.0.0.1")
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s\n%s", err, strings.Join(args, " "), out)
	}
	return string(out)
}

// lineAfter is the indented line that follows a heading of the introduction.
func lineAfter(t *testing.T, text, heading string) string {
	t.Helper()
	_, after, ok := strings.Cut(text, heading+"\n")
	if !ok {
		t.Fatalf("no %q in\n%s", heading, text)
	}
	line, _, _ := strings.Cut(after, "\n")
	return strings.TrimSpace(line)
}

// needForSimulator skips where an outside program is missing, and fails where the build must have it.
func needForSimulator(t *testing.T, args ...string) {
	t.Helper()
	if err := exec.Command(args[0], args[1:]...).Run(); err != nil {
		if os.Getenv("CI") != "" {
			t.Fatalf("%s: %v", strings.Join(args, " "), err)
		}
		t.Skipf("%s: %v", strings.Join(args, " "), err)
	}
}

func TestSimulatorPrintsLinesThatWork(t *testing.T) {
	t.Parallel()
	t.Run("AWS CLI", func(t *testing.T) {
		t.Parallel()
		needForSimulator(t, "aws", "--version")
		endpoint, introduction := startSimulator(t, "--dimension", "storage_gb")
		shell(t, "", "sh", "-c", lineAfter(t, introduction, "AWS CLI:"))
		ledger := ledgerOf(t, endpoint)
		if len(ledger) != 1 || ledger[0]["dimension"] != "storage_gb" || ledger[0]["quantity"] != 1.0 {
			t.Errorf("ledger %v", ledger)
		}
	})
	t.Run("Python", func(t *testing.T) {
		t.Parallel()
		needForSimulator(t, "python3", "-c", "import boto3")
		endpoint, introduction := startSimulator(t)
		shell(t, "import boto3, time\n"+lineAfter(t, introduction, "Python:")+`
client.batch_meter_usage(ProductCode="sim-product", UsageRecords=[dict(Timestamp=time.time(), Dimension="d", Quantity=2, CustomerIdentifier="anyone")])
`, "python3", "-")
		if ledger := ledgerOf(t, endpoint); len(ledger) != 1 || ledger[0]["customerIdentifier"] != "anyone" {
			t.Errorf("ledger %v", ledger)
		}
	})
	t.Run("Closed", func(t *testing.T) {
		t.Parallel()
		needForSimulator(t, "curl", "--version")
		needForSimulator(t, "aws", "--version")
		endpoint, introduction := startSimulator(t, "--open=false")
		shell(t, "", "sh", "-c", lineAfter(t, introduction, "Closed: put a license before you meter it.\n"))
		shell(t, "", "sh", "-c", lineAfter(t, introduction, "AWS CLI:"))
		if ledger := ledgerOf(t, endpoint); len(ledger) != 1 {
			t.Errorf("ledger %v", ledger)
		}
	})
}

// The page names every flag, shows the list of control endpoints as it is, and its Python program prints what it says.
func TestSimulatorPageIsTrue(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile("../../docs/simulator.md")
	if err != nil {
		t.Fatal(err)
	}
	blocks := strings.ReplaceAll("\n"+string(page), "\n    ", "\n") // code blocks without their indentation
	newSimulatorCommand().Flags().VisitAll(func(f *pflag.Flag) {
		if !strings.Contains(blocks, "`--"+f.Name+"`") {
			t.Errorf("the page does not explain --%s", f.Name)
		}
	})
	endpoint, introduction := startSimulator(t)
	if note := strings.Split(introduction, "\n")[1]; !strings.Contains(blocks, note) {
		t.Errorf("the page does not show %q", note)
	}
	res, err := http.Get(endpoint + "/_simulator/")
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	list, err := io.ReadAll(res.Body)
	if err != nil || !strings.Contains(blocks, string(list)) {
		t.Errorf("error %v, or the page does not show this list:\n%s", err, list)
	}

	needForSimulator(t, "python3", "-c", "import boto3")
	_, after, _ := strings.Cut(blocks, "## From Python\n\n")
	program, after, _ := strings.Cut(after, "\n\nprints\n\n")
	want, _, _ := strings.Cut(after, "\n\n")
	got := shell(t, strings.ReplaceAll(program, "http://127.0.0.1:8787", endpoint), "python3", "-")
	if strings.TrimSpace(got) != want {
		t.Errorf("the Python program printed\n%s\nthe page says\n%s", got, want)
	}
}

func TestSimulatorStops(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	out, wait := runSimulator(ctx)
	lines := bufio.NewScanner(out)
	for lines.Scan() && !strings.HasPrefix(lines.Text(), "Everything else:") {
	}
	cancel()
	rest := ""
	for lines.Scan() {
		rest += lines.Text()
	}
	if err := wait(); err != nil || rest != "Stopped. Calls: 0, hours billed: 0." {
		t.Errorf("error %v and %q", err, rest)
	}
}

func TestSimulatorErrorsSayWhatToDo(t *testing.T) {
	t.Parallel()
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer taken.Close()
	notes := filepath.Join(t.TempDir(), "notes.txt")
	if err := os.WriteFile(notes, []byte("to do\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		args []string
		want []string
	}{
		{[]string{"--addr", taken.Addr().String()}, []string{taken.Addr().String() + " is taken", "Try: awsmp simulator --addr 127.0.0.1:0"}},
		{[]string{"--addr", "8787"}, []string{"missing port", "Try: awsmp simulator --addr 127.0.0.1:8787"}},
		{[]string{"--after-window", "typo"}, []string{`AfterWindow is "typo"`, `"status"`}},
		{[]string{"surplus"}, []string{"surplus"}},
		{[]string{"--journal", notes}, []string{notes + " is no simulator journal", fmt.Sprintf("Try: mv %q %q", notes, notes+".old")}},
		{[]string{"--journal", "no/such/journal"}, []string{"no such file or directory", `Try: mkdir -p "no/such"`}},
	} {
		out, wait := runSimulator(t.Context(), tt.args...)
		_, _ = io.Copy(io.Discard, out)
		err := wait()
		for _, want := range tt.want {
			if err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("%v: error %v, want %q in it", tt.args, err, want)
			}
		}
	}
}
