package deploy_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"os"
	"os/exec"
	"slices"
	"strings"

	"github.com/awsmp/metering/internal/desk"
	"github.com/awsmp/metering/internal/metering"
	"github.com/awsmp/metering/internal/standin"
)

// The steps that each alarm goes through in the drill.
const (
	stepRang       = "rang"
	stepSeen       = "was seen in awsmp status"
	stepUnderstood = "was understood with awsmp explain"
	stepQuiet      = "went off"
)

func (d *drill) went(step string, alarms ...string) {
	for _, alarm := range alarms {
		if !slices.Contains(d.proven[alarm], step) {
			d.proven[alarm] = append(d.proven[alarm], step)
		}
	}
}

// said is what a command printed, and how it ended.
type said struct {
	line, out, err string
	code           int
}

// sh runs a line as an operator pastes it: awsmp and the AWS CLI are on the PATH, and the environment leads to the account.
func (d *drill) sh(line string) said {
	d.t.Helper()
	cmd := exec.CommandContext(d.t.Context(), "sh", "-c", line)
	cmd.Env = slices.DeleteFunc(os.Environ(), func(v string) bool {
		return strings.HasPrefix(v, "AWS_") || strings.HasPrefix(v, "AWSMP_") || strings.HasPrefix(v, "PATH=")
	})
	cmd.Env = append(cmd.Env, d.deployed.Env()...)
	cmd.Env = append(cmd.Env, "PATH="+d.tools+string(os.PathListSeparator)+os.Getenv("PATH"), "NO_PROXY=127.0.0.1,localhost", "no_proxy=127.0.0.1,localhost")
	var out, errs bytes.Buffer
	cmd.Stdout, cmd.Stderr, cmd.Dir = &out, &errs, d.tools
	err := cmd.Run()
	s := said{line: line, out: out.String(), err: errs.String()}
	if exit, ok := errors.AsType[*exec.ExitError](err); ok {
		s.code = exit.ExitCode()
	} else {
		d.must(err)
	}
	return s
}

// place is where the stack is, as flags.
func (d *drill) place() string {
	return " --stack " + d.deployed.StackName + " --region " + standin.Region
}

// do runs a line that has to succeed.
func (d *drill) do(line string) said {
	d.t.Helper()
	s := d.sh(line)
	if s.code != 0 {
		d.t.Fatalf("%s\nexit %d\n%s%s", line, s.code, s.out, s.err)
	}
	return s
}

// rings evaluates all alarms: these ring, and no other.
func (d *drill) rings(want ...string) {
	d.t.Helper()
	ringing := d.ringing()
	d.went(stepRang, ringing...)
	slices.Sort(want)
	if !slices.Equal(ringing, want) {
		d.t.Errorf("at %s these ring:\n%q\nwant\n%q", d.console.now.Format("02 15:04"), ringing, want)
	}
}

// quiet is rings after a repair: of these none rings, and what does is said.
func (d *drill) quiet(alarms ...string) {
	d.t.Helper()
	ringing := d.ringing()
	for _, alarm := range alarms {
		if slices.Contains(ringing, alarm) {
			d.t.Errorf("at %s %s still rings", d.console.now.Format("02 15:04"), alarm)
			continue
		}
		d.went(stepQuiet, alarm)
	}
}

// ringing are the runbook names of the alarms that ring.
func (d *drill) ringing() (names []string) {
	d.t.Helper()
	for _, name := range d.console.watch(d.alarms) {
		name = strings.TrimPrefix(name, "awsmp-"+drillProduct+"-")
		names = append(names, strings.TrimPrefix(name, "awsmp-"))
	}
	slices.Sort(names)
	return names
}

// findings are what awsmp status finds, by its JSON and its text, which have to agree on the alarms.
func (d *drill) findings() []desk.Finding {
	d.t.Helper()
	var status struct {
		Findings []desk.Finding `json:"findings"`
	}
	document := d.do("awsmp status --json" + d.place())
	if err := json.Unmarshal([]byte(document.out), &status); err != nil {
		d.t.Fatalf("%s: %v\n%s", document.line, err, document.out)
	}
	return status.Findings
}

// sees looks at the status: each alarm is there, as text and as JSON, with the words.
func (d *drill) sees(alarms ...string) []desk.Finding {
	d.t.Helper()
	found := d.findings()
	text := d.do("awsmp status" + d.place())
	for _, alarm := range alarms {
		switch {
		case !slices.ContainsFunc(found, func(f desk.Finding) bool { return f.Alarm == alarm }):
			d.t.Errorf("awsmp status --json has no finding of %s: %+v", alarm, found)
		case !strings.Contains(text.out, alarm):
			d.t.Errorf("awsmp status does not name %s:\n%s", alarm, text.out)
		default:
			d.went(stepSeen, alarm)
		}
	}
	return found
}

// clear looks at the status after a repair: of these alarms nothing is there that has to be done. What has been in the last hours is told there on, by the real clock
// for failures, which the logs have, and by the console's for what was counted.
func (d *drill) clear(alarms ...string) {
	d.t.Helper()
	for _, f := range d.findings() {
		history := strings.Contains(f.What, " failed: ") || strings.Contains(f.What, " in the last ")
		if slices.Contains(alarms, f.Alarm) && !history {
			d.t.Errorf("awsmp status still finds %s: %s", f.Alarm, f.What)
		}
	}
}

// understands asks once what the alarms mean: of each what that is in money, what to do, and what the stack shows of it now.
func (d *drill) understands(alarms ...string) {
	d.t.Helper()
	type told struct {
		Alarm, Money, Do string
		Findings         []json.RawMessage
	}
	var several struct{ Alarms []told }
	s := d.sh("awsmp explain " + strings.Join(alarms, " ") + " --json" + d.place())
	var err error
	if len(alarms) == 1 {
		several.Alarms = make([]told, 1)
		err = json.Unmarshal([]byte(s.out), &several.Alarms[0])
	} else {
		err = json.Unmarshal([]byte(s.out), &several)
	}
	if s.code != 0 || err != nil || len(several.Alarms) != len(alarms) {
		d.t.Errorf("%s: exit %d, %v, and %d alarms of %d\n%s%s", s.line, s.code, err, len(several.Alarms), len(alarms), s.out, s.err)
		return
	}
	for i, alarm := range alarms {
		if t := several.Alarms[i]; t.Alarm != alarm || t.Money == "" || t.Do == "" || len(t.Findings) == 0 {
			d.t.Errorf("%s: of %s is told %q, %q, %q and %d findings", s.line, alarm, t.Alarm, t.Money, t.Do, len(t.Findings))
			continue
		}
		d.went(stepUnderstood, alarm)
	}
}

// explains asks what became of a group's usage; the answer has to hold the words. It returns the answer.
func (d *drill) explains(g metering.Group, words ...string) string {
	d.t.Helper()
	s := d.sh("awsmp explain " + g.License + " " + g.Dimension + " " + g.Hour.String() + d.place())
	if s.code != 0 {
		d.t.Errorf("%s: exit %d\n%s%s", s.line, s.code, s.out, s.err)
	}
	for _, word := range words {
		if !strings.Contains(s.out, word) {
			d.t.Errorf("%s does not say %q:\n%s", s.line, word, s.out)
		}
	}
	return s.out
}

// repair runs the commands that the findings of an alarm name and that begin so, each once, with a word of consent where it changes something of ours.
func (d *drill) repair(found []desk.Finding, alarm, begins string) {
	d.t.Helper()
	var done []string
	for _, f := range found {
		if f.Alarm != alarm || !strings.HasPrefix(f.Fix, begins) || slices.Contains(done, f.Fix) {
			continue
		}
		d.do(agreed(f.Fix))
		done = append(done, f.Fix)
	}
	if len(done) == 0 {
		d.t.Errorf("awsmp status names no %q for %s: %+v", begins, alarm, slices.DeleteFunc(slices.Clone(found), func(f desk.Finding) bool { return f.Alarm != alarm }))
	}
}

// runs runs the command that a text names on a line of its own and that begins so.
func (d *drill) runs(text, begins string) {
	d.t.Helper()
	for line := range strings.Lines(text) {
		if at := strings.Index(line, begins); at >= 0 {
			d.do(agreed(strings.TrimSpace(line[at:])))
			return
		}
	}
	d.t.Errorf("no %q is named:\n%s", begins, text)
}

func agreed(line string) string {
	if strings.HasPrefix(line, "awsmp ") && !strings.Contains(line, " --yes") {
		line += " --yes"
	}
	return line
}
