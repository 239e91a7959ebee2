package deploy_test

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path"
	"regexp"
	"strings"
	"testing"
)

// pageCommand is a simple command as a shell reads it: quotes are gone, variables stand as they were written, and what a command in it would print is $().
type pageCommand struct {
	Words  []string `json:"words"`
	Prose  bool     `json:"prose"` // it stands in a sentence, where it need not be whole
	sets   map[string]string
	to     string // file that its output goes to
	bodies []string
}

// option is the value behind an option, or empty.
func (c pageCommand) option(name string) string {
	for i, w := range c.Words[:max(0, len(c.Words)-1)] {
		if w == name {
			return c.Words[i+1]
		}
	}
	return ""
}

// is tells whether the command begins with the words.
func (c pageCommand) is(words ...string) bool {
	return len(c.Words) >= len(words) && strings.Join(c.Words[:len(words)], " ") == strings.Join(words, " ")
}

var (
	shellBlock = regexp.MustCompile("(?ms)^```sh\n(.*?)^```")
	anyBlock   = regexp.MustCompile("(?ms)^```.*?^```")
	codeSpan   = regexp.MustCompile("`([^`\n]+)`")
	hereText   = regexp.MustCompile(`(?ms) <<END\n(.*?\n)END$`)
	assignment = regexp.MustCompile(`^(\w+)=(?s:(.*))$`)
	subcommand = regexp.MustCompile(`^(aws|awsmp|bin/awsmp|make) [a-z]`)
)

// commandsOf are the commands of the page in their order: those of its blocks, and then those of its sentences.
func commandsOf(page string) (all []pageCommand) {
	for _, block := range shellBlock.FindAllStringSubmatch(page, -1) {
		all = append(all, commandsIn(block[1])...)
	}
	for _, span := range codeSpan.FindAllStringSubmatch(anyBlock.ReplaceAllString(page, ""), -1) {
		if subcommand.MatchString(span[1]) {
			for _, c := range commandsIn(span[1]) {
				c.Prose = true
				all = append(all, c)
			}
		}
	}
	return all
}

func commandsIn(text string) []pageCommand {
	var bodies []string
	text = hereText.ReplaceAllStringFunc(text, func(here string) string {
		bodies = append(bodies, hereText.FindStringSubmatch(here)[1])
		return ""
	})
	r := shellReader{text: text}
	r.until(0)
	for i, c := range r.commands {
		for len(c.Words) > 0 {
			if set := assignment.FindStringSubmatch(c.Words[0]); set != nil {
				if c.sets == nil {
					c.sets = map[string]string{}
				}
				c.sets[set[1]] = set[2]
			} else if !strings.Contains(" do then else export ", " "+c.Words[0]+" ") {
				break
			}
			c.Words = c.Words[1:]
		}
		r.commands[i] = c
	}
	if len(r.commands) > 0 {
		r.commands[0].bodies = bodies
	}
	return r.commands
}

// shellReader takes text apart as far as the page needs it. It knows nothing of arithmetic, of case or of quotes within ${}.
type shellReader struct {
	text     string
	at       int
	commands []pageCommand
}

// until reads commands up to the byte, or to the end.
func (r *shellReader) until(closing byte) {
	var (
		c            pageCommand
		word         strings.Builder
		begun, aside bool
	)
	endWord := func() {
		if begun && aside {
			c.to, aside = word.String(), false
		} else if begun {
			c.Words = append(c.Words, word.String())
		}
		word.Reset()
		begun = false
	}
	endCommand := func() {
		if endWord(); len(c.Words) > 0 {
			r.commands = append(r.commands, c)
		}
		c = pageCommand{}
	}
	for r.at < len(r.text) {
		b := r.text[r.at]
		r.at++
		switch {
		case b == closing:
			endCommand()
			return
		case b == '>':
			if word.String() == "2" {
				word.Reset()
				begun = false
			}
			endWord()
			aside = true
		case b == ' ' || b == '\t':
			endWord()
		case strings.IndexByte("\n;|&(){}", b) >= 0:
			endCommand()
		case b == '\\' && strings.HasPrefix(r.text[r.at:], "\n"):
			r.at++
		default:
			begun = true
			r.piece(b, &word)
		}
	}
	endCommand()
}

// piece reads a part of a word that begins with the byte.
func (r *shellReader) piece(b byte, word *strings.Builder) {
	switch {
	case b == '\'':
		r.copyTo('\'', word)
		r.at++
	case b == '"':
		for r.at < len(r.text) && r.text[r.at] != '"' {
			inner := r.text[r.at]
			r.at++
			if inner == '\'' {
				word.WriteByte(inner)
				continue
			}
			r.piece(inner, word)
		}
		r.at++
	case b == '\\' && r.at < len(r.text):
		word.WriteByte(r.text[r.at])
		r.at++
	case b == '$' && strings.HasPrefix(r.text[r.at:], "("):
		r.at++
		r.until(')')
		word.WriteString("$()")
	case b == '$' && strings.HasPrefix(r.text[r.at:], "{"):
		word.WriteByte(b)
		r.copyTo('}', word)
		word.WriteByte('}')
		r.at++
	default:
		word.WriteByte(b)
	}
}

func (r *shellReader) copyTo(last byte, word *strings.Builder) {
	for r.at < len(r.text) && r.text[r.at] != last {
		word.WriteByte(r.text[r.at])
		r.at++
	}
}

// commandLineChecker looks commands up in the AWS CLI, which is a package of Python: every command and option exists, none that is needed is missing, every query is one.
const commandLineChecker = `
import json, sys
try:
    import jmespath
    from awscli.clidriver import create_clidriver
except ImportError as missing:
    print("missing:", missing)
    sys.exit()
driver = create_clidriver()
common = set(driver._get_argument_table())

def below(node):
    return node._get_command_table() if hasattr(node, "_get_command_table") else getattr(node, "subcommand_table", None) or {}

def options(node):
    return {name: option for name, option in (getattr(node, "arg_table", None) or {}).items() if name != "subcommand"}

def look(words, prose):
    node, seen, rest = driver, ["aws"], words[1:]
    while rest and rest[0] in below(node):
        node = below(node)[rest[0]]
        seen.append(rest[0])
        rest = rest[1:]
    known = options(node)
    if below(node) and not known:
        if rest or not prose:
            yield " ".join(seen) + " has no command " + " ".join(rest[:1])
        return
    for word in rest:
        if word.startswith("--") and word[2:] not in known and word[2:] not in common:
            yield " ".join(seen) + " has no option " + word
    for name, option in known.items():
        if getattr(option, "required", False) and not getattr(option, "positional_arg", False) and "--" + name not in rest and not prose:
            yield " ".join(seen) + " needs --" + name
    if "--query" in rest:
        query = rest[rest.index("--query") + 1]
        try:
            jmespath.compile(query)
        except jmespath.exceptions.JMESPathError as wrong:
            yield " ".join(seen) + ": " + query + " is no query: " + str(wrong).splitlines()[0]

for command in json.load(sys.stdin):
    for problem in look(command["words"], command["prose"]):
        print(problem)
`

// awsProblems asks the AWS CLI about its commands. Where it is not there as a package of Python the test is skipped; in continuous integration it fails.
func awsProblems(t *testing.T, commands []pageCommand) []string {
	t.Helper()
	var ours []pageCommand
	for _, c := range commands {
		if c.is("aws") {
			ours = append(ours, c)
		}
	}
	asked, err := json.Marshal(ours)
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), "python3", "-c", commandLineChecker)
	cmd.Stdin, cmd.Stderr = strings.NewReader(string(asked)), os.Stderr
	out, err := cmd.Output()
	if err != nil || strings.HasPrefix(string(out), "missing:") {
		hint := fmt.Sprintf("the AWS CLI is not there as a package of Python: %v %s\nTry: pip install awscli", err, out)
		if os.Getenv("CI") != "" {
			t.Fatal(hint)
		}
		t.Skip(hint)
	}
	return strings.FieldsFunc(string(out), func(r rune) bool { return r == '\n' })
}

func TestReadmeSpeaksTheAWSCLI(t *testing.T) {
	t.Parallel()
	commands := commandsOf(readmePage(t))
	if len(commands) < 80 {
		t.Errorf("only %d commands are found on the page", len(commands))
	}
	// Wrong ones beside the page's, since most of the time is the start of the AWS CLI.
	faults := map[string]string{
		"aws cloudformation undeploy":                                           "no command undeploy",
		"aws s3 mb s3://b --encrypted":                                          "no option --encrypted",
		"aws cloudformation wait stack-update-done":                             "no command stack-update-done",
		"aws dynamodb get-item --table-name x":                                  "needs --key",
		`aws sts get-caller-identity --query "Account["`:                        "is no query",
		`X="$(aws dynamodb query --table-name 'a b' --no-such)" Y=1 make build`: "no option --no-such",
	}
	for text := range faults {
		commands = append(commands, commandsIn(text)...)
	}
	problems := awsProblems(t, commands)
	for _, says := range faults {
		complains(t, problems, says)
	}
	if len(problems) > len(faults) {
		t.Errorf("%q", problems)
	}
}

// shellProblems has a shell read the blocks, and JSON where it stands in them.
func shellProblems(t *testing.T, page string) (wrong []string) {
	t.Helper()
	for _, block := range shellBlock.FindAllStringSubmatch(page, -1) {
		cmd := exec.CommandContext(t.Context(), "bash", "-n")
		cmd.Stdin = strings.NewReader(block[1])
		if out, err := cmd.CombinedOutput(); err != nil {
			wrong = append(wrong, fmt.Sprintf("a shell cannot read %q: %s", block[1], out))
		}
	}
	for _, c := range commandsOf(page) {
		for _, text := range append(c.bodies, c.Words...) {
			if strings.HasPrefix(text, "{") && !json.Valid([]byte(text)) {
				wrong = append(wrong, "no JSON: "+text)
			}
		}
	}
	return wrong
}

// helpOf is what docs/cli.md says of a command of awsmp: that of the longest name that the words begin with, and the words behind it.
func helpOf(reference string, words []string) (help string, rest []string) {
	for n := len(words); n > 0; n-- {
		if _, after, found := strings.Cut(reference, "\n## awsmp "+strings.Join(words[:n], " ")+"\n"); found {
			help, _, _ = strings.Cut(after, "\n## ")
			return help, words[n:]
		}
	}
	return "", words
}

// awsmpProblems: every command, kind and flag of awsmp is in docs/cli.md, and every target of make in the Makefile.
func awsmpProblems(page, reference, makefile string) (wrong []string) {
	for _, c := range commandsOf(page) {
		if c.is("make") {
			for _, target := range c.Words[1:] {
				if !strings.Contains(makefile, "\n"+target+":") {
					wrong = append(wrong, "make has no target "+target)
				}
			}
		}
		if len(c.Words) < 2 || path.Base(c.Words[0]) != "awsmp" {
			continue
		}
		help, rest := helpOf(reference, c.Words[1:])
		if help == "" {
			wrong = append(wrong, fmt.Sprintf("awsmp has no command %q", c.Words[1]))
		}
		for i, word := range rest {
			flag := strings.HasPrefix(word, "--")
			if flag && !strings.Contains(help, " "+word+" ") || i == 0 && !flag && !strings.Contains(help, "\n  "+word+" ") {
				wrong = append(wrong, fmt.Sprintf("%s has no %s", strings.Join(c.Words[:3], " "), word))
			}
		}
	}
	return wrong
}
