package core

import (
	"maps"
	"os"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/yett-dev/yett/core/ops"
	"github.com/yett-dev/yett/core/testkit"
	"github.com/yett-dev/yett/sdk"
	"github.com/yett-dev/yett/sdk/wire"
)

// registryRow is one error code as errors.json has it.
type registryRow struct {
	Code   sdk.Code
	Status int
	RPC    int
}

// rpcNumber is the JSON-RPC error code of one of ours, as PROTOCOL.md promises it. Vectors and examples compare it with
// what the socket sends.
func rpcNumber(c sdk.Code) int {
	switch c {
	case sdk.CodeInvalidJSON:
		return -32700
	case sdk.CodeBadRequest:
		return -32600
	case sdk.CodeUnknownOperation:
		return -32601
	case sdk.CodeInvalidField, sdk.CodeMissingField:
		return -32602
	}
	return -32000
}

// TestVectors runs sdk/testdata/vectors against a gateway, each file and each way of sending it on a fresh one.
func TestVectors(t *testing.T) {
	files, stages := readVectors(t), 0
	for _, name := range slices.Sorted(maps.Keys(files)) {
		for _, way := range []string{wayHTTP, wayFlat, wayRPC} {
			cases := files[name].sentBy(way)
			if len(cases) == 0 {
				continue
			}
			if stages++; !testkit.Every(stages-1, 3) {
				continue
			}
			s := newStage(t, compiled)
			for _, c := range cases {
				t.Run(name+"/"+way+"/"+c.Name, func(t *testing.T) { s.play(t, files[name], c, way) })
			}
			s.stop()
		}
	}
}

// TestVectorCoverage wants a vector for each operation on each of its transports.
func TestVectorCoverage(t *testing.T) {
	have := map[string]bool{}
	for _, f := range readVectors(t) {
		for i := range f.Cases {
			c := &f.Cases[i]
			for _, st := range c.Steps {
				if st.Send != nil {
					c.covers(st.Send, have)
				}
			}
		}
	}
	for i := range ops.Table {
		op := &ops.Table[i]
		if op.Path != "" && !have[op.Method+" "+op.Path] {
			t.Errorf("no vector has %s %s (%s)", op.Method, op.Path, op.Name)
		}
		if op.Socket && !have[op.Name] {
			t.Errorf("no vector has %s on the socket", op.Name)
		}
	}
}

// covers notes what a step asks for, on each transport that its case is sent over.
func (c *vectorCase) covers(send *vectorSend, have map[string]bool) {
	if send.Op != "" {
		i := slices.IndexFunc(ops.Table, func(o ops.Op) bool { return o.Name == send.Op })
		if i >= 0 && c.Transport != "socket" {
			have[ops.Table[i].Method+" "+ops.Table[i].Path] = true
		}
		if c.Transport != "http" {
			have[socketName(send.Op)] = true
		}
	}
	have[asked("http", send.Method+" "+send.Path+" HTTP/1.1")] = true
	for _, l := range send.Lines {
		have[asked("socket", "> "+l)] = true
	}
}

// TestVectorErrors holds errors.json to the registry: each code has its row, and is either reached by a case of some
// file or listed with the reason why none can.
func TestVectorErrors(t *testing.T) {
	files := readVectors(t)
	f := files["errors.json"]
	reached := map[string]bool{}
	for _, file := range files {
		for _, c := range file.Cases {
			for _, st := range c.Steps {
				reached[st.Want.Code] = true
				for _, l := range st.Want.Lines {
					reached[l.Code] = true
				}
			}
		}
	}
	delete(reached, "")
	rows := map[sdk.Code]bool{}
	for _, r := range f.Registry {
		rows[r.Code] = true
		if want, ok := wire.Statuses[r.Code]; !ok || want.HTTP != r.Status || rpcNumber(r.Code) != r.RPC {
			t.Errorf("errors.json: registry: %+v, the registry of sdk/wire has %d and %d (0 is none)", r, want.HTTP,
				rpcNumber(r.Code))
		}
	}
	for code := range wire.Statuses {
		_, excused := f.Unreached[string(code)]
		switch {
		case !rows[code]:
			t.Errorf("errors.json: registry lacks %s", code)
		case reached[string(code)] && excused:
			t.Errorf("errors.json: %s is said to be unreached, but a case reaches it", code)
		case !reached[string(code)] && !excused:
			t.Errorf("no vector reaches %s: add a case, or say in errors.json why there cannot be one", code)
		}
	}
	for code := range reached {
		if _, ok := wire.Statuses[sdk.Code(code)]; !ok {
			t.Errorf("a vector wants %q, which is no code", code)
		}
	}
}

// protocolFile is the document that clients are written from.
const protocolFile = "../sdk/wire/PROTOCOL.md"

// chunk is a piece of PROTOCOL.md: text as it stands, a generated table, or the inside of an example.
type chunk struct {
	text    string
	table   string // what generates it: "operations", "errors" or "fields NAME"
	example *example
}

const marked, markEnd, fence = "<!-- ", "<!-- end -->", "```"

// chunks takes the document apart; joining the texts gives it again.
func chunks(t *testing.T, doc string) (out []chunk, sections []string) {
	t.Helper()
	var section string
	var cur chunk
	inside := false
	flush := func(next chunk) {
		out = append(out, cur)
		cur = next
	}
	for i, l := range strings.SplitAfter(doc, "\n") {
		trimmed := strings.TrimSuffix(l, "\n")
		switch {
		case inside && (trimmed == fence && cur.example != nil || trimmed == markEnd && cur.table != ""):
			inside = false
			flush(chunk{text: l})
			continue
		case inside:
		case trimmed == fence+"http", trimmed == fence+"socket":
			cur.text += l
			flush(chunk{example: &example{section: section, kind: trimmed[len(fence):], line: i + 1}})
			inside = true
			continue
		case strings.HasPrefix(trimmed, marked) && trimmed != markEnd:
			cur.text += l
			flush(chunk{table: strings.TrimSuffix(trimmed[len(marked):], " -->")})
			inside = true
			continue
		case strings.HasPrefix(trimmed, "# "):
			section = ""
			sections = append(sections, trimmed)
		case strings.HasPrefix(trimmed, "## "):
			section = trimmed[len("## "):]
			sections = append(sections, section)
		}
		cur.text += l
		if cur.example != nil {
			cur.example.text = cur.text
		}
	}
	if inside {
		t.Fatalf("PROTOCOL.md: a block is not closed: %.80s", cur.text)
	}
	flush(chunk{})
	return out, sections
}

// TestProtocol holds PROTOCOL.md to the program: its tables are those of the table of operations, the registry and the
// wire types, every operation has a section with an example on each of its transports, and every example is run, in the
// order of the document, against one gateway. GOLDEN=write writes the tables, and answers that have changed.
func TestProtocol(t *testing.T) {
	raw, err := os.ReadFile(protocolFile)
	if err != nil {
		t.Fatal(err)
	}
	parts, sections := chunks(t, string(raw))
	checkSections(t, sections)
	checkExamples(t, parts)
	checkCodes(t, string(raw))
	tables := &fieldTables{at: map[reflect.Type]string{}}
	p := &performer{stage: newStage(t, compiled),
		vars: map[string]string{"SECRET": "gh" + "p_x7Kq2mV9tR4wZ1nB8cY5" + "dL3fH6jP0sGaT2uE"}}
	var fresh strings.Builder
	for _, c := range parts {
		want, err := c.text, error(nil)
		switch {
		case c.table != "":
			want = tableOf(t, tables, c.table)
		case c.example != nil:
			want, err = p.perform(c.example)
		}
		if err != nil {
			t.Fatalf("PROTOCOL.md:%d: %v", c.example.line, err)
		}
		fresh.WriteString(want)
		switch {
		case want == c.text || os.Getenv("GOLDEN") == "write":
		case c.example != nil:
			t.Errorf("PROTOCOL.md:%d: the gateway answers otherwise (GOLDEN=write takes it over):\n%s\nthe document has\n%s",
				c.example.line, want, c.text)
		default:
			t.Errorf("PROTOCOL.md: the table %q is not the program's; GOLDEN=write writes it:\n%s", c.table, want)
		}
	}
	if p.last != nil {
		t.Error("PROTOCOL.md: the last request has no answer")
	}
	if os.Getenv("GOLDEN") == "write" && fresh.String() != string(raw) {
		if err := os.WriteFile(protocolFile, []byte(fresh.String()), 0o644); err != nil {
			t.Fatal(err)
		}
	}
}

func tableOf(t *testing.T, tables *fieldTables, name string) string {
	t.Helper()
	switch name {
	case "operations":
		return operationsTable()
	case "errors":
		return errorsTable()
	}
	op, ok := strings.CutPrefix(name, "fields ")
	if !ok {
		t.Fatalf("PROTOCOL.md: nothing generates %q", name)
	}
	return tables.of(benchOp(t, op))
}

// checkSections wants a heading for each operation, in the order of the table, and none for anything else.
func checkSections(t *testing.T, sections []string) {
	t.Helper()
	at := slices.Index(sections, "# Operations")
	if at < 0 {
		t.Fatal(`PROTOCOL.md has no heading "# Operations"`)
	}
	var want []string
	for i := range ops.Table {
		want = append(want, ops.Table[i].Name)
	}
	if got := sections[at+1:]; !slices.Equal(got, want) {
		t.Errorf("PROTOCOL.md: the sections behind # Operations are\n%v\nthe table of operations has\n%v", got, want)
	}
}

// checkExamples wants the fields and an example on each transport for each operation, in its own section.
func checkExamples(t *testing.T, parts []chunk) {
	t.Helper()
	have := map[string]bool{}
	for _, c := range parts {
		have[c.table] = true
		if ex := c.example; ex != nil {
			for _, l := range strings.Split(ex.text, "\n") {
				have[ex.section+": "+asked(ex.kind, l)] = true
			}
		}
	}
	for i := range ops.Table {
		op := &ops.Table[i]
		if !have["fields "+op.Name] {
			t.Errorf("PROTOCOL.md: the section of %s has no <!-- fields %s -->", op.Name, op.Name)
		}
		if op.Path != "" && !have[op.Name+": "+op.Method+" "+op.Path] {
			t.Errorf("PROTOCOL.md: the section of %s has no example of %s %s", op.Name, op.Method, op.Path)
		}
		if op.Socket && !have[op.Name+": "+op.Name] {
			t.Errorf("PROTOCOL.md: the section of %s has no example on the socket", op.Name)
		}
	}
}

var (
	errorsLine = regexp.MustCompile(`(?m)^Errors: ([^.]*)\.$`)
	errorsList = regexp.MustCompile(`(?s)<!-- errors -->.*?<!-- end -->`)
	quoted     = regexp.MustCompile("`([^`]+)`")
)

// checkCodes wants the codes that sections name to be codes, and each code to be named outside the table of all codes:
// readers must learn where it can reach them.
func checkCodes(t *testing.T, doc string) {
	t.Helper()
	lines := errorsLine.FindAllStringSubmatch(doc, -1)
	if len(lines) == 0 {
		t.Error("PROTOCOL.md: no section says which errors there are")
	}
	for _, l := range lines {
		for _, code := range quoted.FindAllStringSubmatch(l[1], -1) {
			if _, ok := wire.Statuses[sdk.Code(code[1])]; !ok {
				t.Errorf("PROTOCOL.md: %s is no error code", code[1])
			}
		}
	}
	rest := errorsList.ReplaceAllString(doc, "")
	for code := range wire.Statuses {
		if !strings.Contains(rest, "`"+string(code)+"`") {
			t.Errorf("PROTOCOL.md: nothing but the table names %s: say which operation returns it, and when", code)
		}
	}
}

var (
	requestLine = regexp.MustCompile(`^([A-Z]+) (/[^ ?]*)\S* HTTP/1\.1$`)
	sentName    = regexp.MustCompile(`^> \{.*"(?:type|method)":"(\w+)"`)
)

// asked is what a line of an example asks for: a method and a path of the table, or a name on the socket.
func asked(kind, line string) string {
	if kind == "socket" {
		if m := sentName.FindStringSubmatch(line); m != nil {
			return m[1]
		}
		return ""
	}
	m := requestLine.FindStringSubmatch(line)
	if m == nil {
		return ""
	}
	for i := range ops.Table {
		op := &ops.Table[i]
		if op.Method == m[1] && matchesPath(op.Path, m[2]) {
			return op.Method + " " + op.Path
		}
	}
	return ""
}

func matchesPath(pattern, path string) bool {
	want, got := strings.Split(pattern, "/"), strings.Split(path, "/")
	if len(want) != len(got) {
		return false
	}
	for i, segment := range want {
		if segment != got[i] && !strings.HasPrefix(segment, "{") {
			return false
		}
	}
	return true
}
