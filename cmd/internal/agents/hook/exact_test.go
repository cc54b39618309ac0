package hook

import (
	"bytes"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/yett-dev/yett/sdk/exact"
)

var oddNumbers = []string{"12345678901234567890", "0.10", "1e400", "-0", "1E+2", "0.1000000000000000055511151231257827",
	"9007199254740993", "1.0", "5e-324", "-1e-400", "100000000000000000000000000000000000001"}

// jsonGen draws JSON texts with odd numbers, odd spacing, odd escapes and members that nobody knows.
func jsonGen(depth int, withSecrets bool) *rapid.Generator[string] {
	return rapid.Custom(func(t *rapid.T) string {
		kinds := 5
		if depth > 0 {
			kinds = 7
		}
		space := rapid.SampledFrom([]string{"", " ", "\n\t"}).Draw(t, "space")
		switch rapid.IntRange(0, kinds-1).Draw(t, "kind") {
		case 0:
			return rapid.SampledFrom(oddNumbers).Draw(t, "number")
		case 1:
			return rapid.SampledFrom([]string{"true", "false", "null"}).Draw(t, "word")
		case 2, 3, 4:
			texts := []string{`""`, `"a"`, `"\u00e9\/\n"`, `"é𝄞"`, `"\ud834\udd1e"`, `"<b>&"`, `"{\"n\":0.10}"`}
			if withSecrets {
				texts = append(texts, `"SECRET"`, `"a SECRET b"`, `"S\u0045CRET"`)
			}
			return rapid.SampledFrom(texts).Draw(t, "text")
		case 5:
			items := rapid.SliceOfN(jsonGen(depth-1, withSecrets), 0, 3).Draw(t, "items")
			return "[" + space + strings.Join(items, space+","+space) + space + "]"
		}
		names := rapid.SliceOfNDistinct(rapid.SampledFrom([]string{`"type"`, `"text"`, `"x"`, `"\u0079"`, `"content"`,
			`"a\/b"`, `"description"`, `"command"`}), 0, 3, rapid.ID[string]).Draw(t, "names")
		var rows []string
		for _, name := range names {
			rows = append(rows, name+space+":"+space+jsonGen(depth-1, withSecrets).Draw(t, "value"))
		}
		return "{" + space + strings.Join(rows, ",") + space + "}"
	})
}

// TestArgsKeepTheirBytes holds that arguments reach the gateway as the agent sent them.
func TestArgsKeepTheirBytes(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var rows []string
		for i, v := range rapid.SliceOfN(jsonGen(3, false), 0, 4).Draw(t, "args") {
			rows = append(rows, fmt.Sprintf(` "m%d" : %s`, i, v))
		}
		args := "{" + strings.Join(rows, ",") + "}"
		for _, agent := range Agents() {
			e, err := Read(agent, []byte(call(agent, Before, args, "")))
			if err != nil {
				t.Fatalf("%s: %v", agent, err)
			}
			if string(e.Args) != args || !bytes.Equal(e.Asked, e.Args) {
				t.Fatalf("%s: sent %s\nasked %s", agent, args, e.Args)
			}
		}
	})
}

// TestDescriptionIsNotDecidedOn holds that only the description of a shell call is left out of what is asked.
func TestDescriptionIsNotDecidedOn(t *testing.T) {
	for args, want := range map[string]string{
		`{"command":"ls","description":"List","n":0.10}`: `{"command":"ls","n":0.10}`,
		`{"command":"ls", "description":1}`:              `{"command":"ls", "description":1}`,
		`{"command":["ls"],"description":"x"}`:           `{"command":["ls"],"description":"x"}`,
		`{"query":"x","description":"y"}`:                `{"query":"x","description":"y"}`,
	} {
		for _, agent := range []Agent{ClaudeCode, Codex, Gemini, Copilot, Cursor, OpenCode, Cline, VSCode} {
			e := mustRead(t, agent, shellCall(agent, args))
			if string(e.Args) != args || string(e.Asked) != want {
				t.Errorf("%s: %s: args %s, asked %s, want %s", agent, args, e.Args, e.Asked, want)
			}
			other := mustRead(t, agent, call(agent, Before, args, ""))
			if string(other.Asked) != args || strings.Contains(other.Note, "List") {
				t.Errorf("%s: %s: another tool is asked about with %s, note %q", agent, args, other.Asked, other.Note)
			}
			if args != want && !strings.Contains(e.Note, "List") {
				t.Errorf("%s: the description is not in the note %q", agent, e.Note)
			}
		}
	}
	e := mustRead(t, Gemini, shellCall(Gemini, `{"command":"ls","description":"List"}`))
	r := e.Answer(Decision{Effect: Permit, Args: []byte(`{"command":"pwd"}`)})
	if want := `{"command":"pwd","description":"List"}`; r.Exit != 0 || !bytes.Contains(r.Stdout, []byte(want)) {
		t.Errorf("the description stops a merge: %s", show(r))
	}
}

// TestNoteIsBounded holds that a description of any length fits.
func TestNoteIsBounded(t *testing.T) {
	args := `{"command":"ls","description":"` + strings.Repeat("é", MaxNote) + `"}`
	e := mustRead(t, ClaudeCode, shellCall(ClaudeCode, args))
	if len(e.Note) > MaxNote || !strings.HasSuffix(e.Note, "é…") {
		t.Errorf("%d bytes, ending in %q", len(e.Note), e.Note[len(e.Note)-8:])
	}
}

func numbersOf(t interface{ Fatal(...any) }, json string) []string {
	var doc exact.Doc
	if err := doc.Parse(json, exact.DefaultLimits); err != nil {
		t.Fatal(err, json)
	}
	var out []string
	numbers(doc.Root(), func(raw string) bool {
		out = append(out, raw)
		return true
	})
	return out
}

// TestPutBackChangesTextsOnly holds that a redaction reaches every text, also names and escaped ones, and nothing else.
func TestPutBackChangesTextsOnly(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		json := jsonGen(4, true).Draw(t, "json")
		texts, err := Strings([]byte(json))
		if err != nil {
			t.Fatal(err)
		}
		same, err := PutBack([]byte(json), texts)
		if err != nil || string(same) != strings.TrimSpace(json) {
			t.Fatalf("%v\nunchanged texts make of %s\n%s", err, json, same)
		}
		found := false
		for i, s := range texts {
			texts[i] = strings.ReplaceAll(s, secret, "[REDACTED]")
			found = found || texts[i] != s
		}
		got, err := PutBack([]byte(json), texts)
		if err != nil {
			t.Fatal(err)
		}
		after, err := Strings(got)
		if err != nil || !slices.Equal(after, texts) {
			t.Fatalf("%v\n%s became %s", err, json, got)
		}
		if a, b := numbersOf(t, json), numbersOf(t, string(got)); !slices.Equal(a, b) {
			t.Fatalf("numbers %v became %v", a, b)
		}
		if redacts([]byte(json), got) != found {
			t.Fatalf("redacts(%s, %s) is not %v", json, got, found)
		}
		if found && redacts(got, []byte(json)) && strings.Contains(string(got), secret) {
			t.Fatalf("a secret is left in %s", got)
		}
	})
}

// TestNamesAreTexts holds that the names of members are scanned and replaced as strings are.
func TestNamesAreTexts(t *testing.T) {
	json := `{"a\u0062": ["c", {"d":0.10}], "e":null}`
	texts, err := Strings([]byte(json))
	if want := []string{"ab", "c", "d", "e"}; err != nil || !slices.Equal(texts, want) {
		t.Fatalf("%v: got %q, want %q", err, texts, want)
	}
	got, err := PutBack([]byte(json), []string{"x", "c", "y", "e"})
	if want := `{"x":["c",{"y":0.10}],"e":null}`; err != nil || string(got) != want {
		t.Errorf("%v: got %s, want %s", err, got, want)
	}
}

func TestPutBackRefuses(t *testing.T) {
	for name, row := range map[string]struct {
		json  string
		texts []string
	}{
		"too few":       {`["a","b"]`, []string{"x"}},
		"too many":      {`["a"]`, []string{"x", "y"}},
		"two same name": {`{"a":1,"b":2}`, []string{"x", "x"}},
		"broken":        {`{"a":1`, []string{"x"}},
		"trailing":      {`"a" "b"`, []string{"x"}},
	} {
		if out, err := PutBack([]byte(row.json), row.texts); err == nil {
			t.Errorf("%s: %s", name, out)
		}
	}
	if _, err := Strings([]byte(`{"a":"\ud800"}`)); err == nil {
		t.Error("a lone surrogate was read")
	}
}

// TestRedactionHidesTheSecret holds, for the agents that can hide an output, that no answer holds the secret, and that
// what the agent gets of it has the tool's own shape and numbers.
func TestRedactionHidesTheSecret(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		json := jsonGen(3, true).Draw(t, "output")
		for _, agent := range []Agent{ClaudeCode, Codex, Gemini, Copilot, OpenCode, Cursor, Cline, VSCode, Windsurf} {
			e, err := Read(agent, []byte(call(agent, After, `{}`, json)))
			if err != nil {
				if agent == Cline && json == "null" { // no output
					continue
				}
				t.Fatalf("%s: %v", agent, err)
			}
			scans := scansOf(e, Redacted)
			for i := range scans { // the word may be written with escapes
				texts, _ := Strings(e.Outputs[i].JSON)
				for j, s := range texts {
					if texts[j] = strings.ReplaceAll(s, secret, "[REDACTED]"); texts[j] != s {
						scans[i].Verdict = Redacted
					}
				}
				scans[i].JSON, _ = PutBack(e.Outputs[i].JSON, texts)
			}
			r := e.Scanned(scans)
			if said, _ := Strings(r.Stdout); strings.Contains(strings.Join(said, "\n"), secret) {
				t.Fatalf("%s shows the secret of %s: %s", agent, json, show(r))
			}
			if scans[0].Verdict == Redacted && closed(agent, After, r) != "" && agent != Codex && agent != Gemini {
				t.Fatalf("%s: %s: %s", agent, closed(agent, After, r), show(r))
			}
		}
	})
}

// TestRewriteIsExact holds that arguments reach the agent as they were approved, or not at all.
func TestRewriteIsExact(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		was := `{"m":` + jsonGen(2, false).Draw(t, "was") + `}`
		now := `{"m":` + jsonGen(2, false).Draw(t, "now") + `}`
		for _, agent := range Agents() {
			e, err := Read(agent, []byte(call(agent, Before, was, "")))
			if err != nil {
				t.Fatal(err)
			}
			r := e.Answer(Decision{Effect: Permit, Args: []byte(now)})
			switch {
			case closed(agent, Before, r) == "" && !bytes.HasPrefix(r.Stdout, []byte(`{"overrideInput":{"m"`)):
			case was == now:
			case !bytes.Contains(r.Stdout, []byte(now)):
				t.Fatalf("%s runs something else than %s: %s", agent, now, show(r))
			default:
				for _, n := range numbersOf(t, now) {
					f, err := strconv.ParseFloat(n, 64)
					back := strconv.FormatFloat(f, 'f', -1, 64)
					a, _ := exact.ParseDecimal(n)
					b, berr := exact.ParseDecimal(back)
					if !slices.Contains(numbersOf(t, was), n) && (err != nil || berr != nil || a.Cmp(b) != 0) {
						t.Fatalf("%s would round %s: %s", agent, n, show(r))
					}
				}
			}
		}
	})
	for name, row := range map[string]struct{ was, now string }{
		"Gemini keeps a member":       {`{"a":1,"b":2}`, `{"a":1}`},
		"Gemini keeps a deep member":  {`{"a":{"b":1,"c":2}}`, `{"a":{"b":3}}`},
		"Gemini merges lists, maybe":  {`{"a":[{"b":1}]}`, `{"a":[{}]}`},
		"not an object":               {`{}`, `[]`},
		"not strict JSON":             {`{}`, `{"a":1,"a":2}`},
		"a number that becomes float": {`{"n":1}`, `{"n":12345678901234567890}`},
	} {
		if r := answerOf(t, Gemini, row.was, row.now); closed(Gemini, Before, r) != "" {
			t.Errorf("%s: %s", name, show(r))
		}
	}
	for now, runs := range map[string]bool{`{"a":"y","b":[2]}`: true, `{"c":"y","b":[2]}`: false, `{"a":"y"}`: false,
		`{"a":"y","b":[2,3]}`: false, `{"a":1,"b":[2]}`: false, `{"b":[2],"a":"y"}`: false} {
		if r := answerOf(t, VSCode, `{"a":"x","b":[1]}`, now); (r.Exit == 0) != runs {
			t.Errorf("VS Code would ignore arguments of another shape: %s: %s", now, show(r))
		}
	}
}

func answerOf(t *testing.T, agent Agent, was, now string) Reply {
	return mustRead(t, agent, call(agent, Before, was, "")).Answer(Decision{Effect: Permit, Args: []byte(now)})
}

// TestCallIDs holds that two calls have two ids, and that every id is a name for the gateway.
func TestCallIDs(t *testing.T) {
	seen := map[string]string{}
	for _, id := range []string{"u", "v", "u:v", "u\nv", "u v", "é", strings.Repeat("x", 300), strings.Repeat("y", 300)} {
		for _, session := range []string{"s", "s:u", "t\x01"} {
			for _, agent := range []Agent{ClaudeCode, Codex} {
				got := callID(agent, session, id)
				what := fmt.Sprintf("%q %q %q", agent, session, id)
				if other, twice := seen[got]; twice {
					t.Errorf("%s and %s are both %s", what, other, got)
				}
				seen[got] = what
				if len(got) > maxName || !isASCII(got) || !strings.HasPrefix(got, string(agent)+":") {
					t.Errorf("%s: %q", what, got)
				}
			}
		}
	}
	a := mustRead(t, Gemini, `{"session_id":"s","timestamp":"1","hook_event_name":"BeforeTool","tool_name":"x","tool_input":{}}`)
	b := mustRead(t, Gemini, `{"session_id":"s","timestamp":"2","hook_event_name":"BeforeTool","tool_name":"x","tool_input":{}}`)
	if a.CallID == b.CallID {
		t.Error("two calls of Gemini have one id")
	}
}

// TestServers holds that names of servers which are known tell server and tool apart.
func TestServers(t *testing.T) {
	for _, row := range []struct {
		joined, sep string
		servers     []string
		want        string
	}{
		{"github-mcp-get", "-", nil, "mcp.github/mcp-get"},
		{"github-mcp-get", "-", []string{"github", "github-mcp"}, "mcp.github-mcp/get"},
		{"github-mcp-get", "-", []string{"github-mcp-get", "other"}, "mcp.github/mcp-get"},
		{"a_b_c", "_", []string{"a_b"}, "mcp.a_b/c"},
		{"a__b__c", "__", nil, "mcp.a/b__c"},
	} {
		server, tool, ok := splitMCP(row.joined, row.sep, row.servers)
		if got := mcpTool(server, tool); !ok || got != row.want {
			t.Errorf("%s with %v: got %s, want %s", row.joined, row.servers, got, row.want)
		}
	}
	for _, bad := range []string{"a", "-a", "a-"} {
		if _, _, ok := splitMCP(bad, "-", nil); ok {
			t.Errorf("%q was split", bad)
		}
	}
}
