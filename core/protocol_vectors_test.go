package core

import (
	"bytes"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/yett-dev/yett/core/ops"
	"github.com/yett-dev/yett/sdk"
	"github.com/yett-dev/yett/sdk/wire"
)

// vectorFile is one file of sdk/testdata/vectors; its README says what the members mean.
type vectorFile struct {
	About  string
	Values map[string][]string
	Cases  []vectorCase

	Registry  []registryRow     // errors.json
	Unreached map[string]string // errors.json
}

type vectorCase struct {
	Name      string
	Transport string // http, socket, both
	Steps     []vectorStep
}

type vectorStep struct {
	As   string
	Conn string
	Send *vectorSend
	Want vectorWant
	Save map[string]string
}

type vectorSend struct {
	Op           string
	Method, Path string
	Headers      map[string]string
	Body         json.RawMessage
	Text, Hex    string
	Lines        []string
}

type vectorWant struct {
	Status  int
	Code    string
	Headers map[string]string
	Body    map[string]any
	Whole   map[string]any // of a line: the line as it stands, where Body is a JSON-RPC result or error data
	Has     []string
	Lacks   []string
	Match   map[string]string
	Lines   []vectorWant
	Events  []vectorWant
	RPC     int    // of a line: the JSON-RPC error code
	End     string // of a connection: closed
}

// The ways in which a case is sent.
const (
	wayHTTP = "http"
	wayFlat = "flat"
	wayRPC  = "jsonrpc"
)

// ways lists how a case is sent. Raw lines are spelled already.
func (c *vectorCase) ways() []string {
	switch c.Transport {
	case "http":
		return []string{wayHTTP}
	case "both":
		return []string{wayHTTP, wayFlat, wayRPC}
	}
	for _, st := range c.Steps {
		if st.Send != nil && st.Send.Op != "" {
			return []string{wayFlat, wayRPC}
		}
	}
	return []string{wayFlat}
}

// sentBy lists the cases that are sent in that way.
func (f *vectorFile) sentBy(way string) []*vectorCase {
	var out []*vectorCase
	for i := range f.Cases {
		if slices.Contains(f.Cases[i].ways(), way) {
			out = append(out, &f.Cases[i])
		}
	}
	return out
}

// socketName is what an operation of HTTP is called on the socket.
func socketName(op string) string {
	switch op {
	case "authorize":
		return "govern"
	case "defer_status":
		return "poll_defer"
	}
	return op
}

func readVectors(t *testing.T) map[string]*vectorFile {
	t.Helper()
	names, err := filepath.Glob(filepath.Join(vectorDir, "*.json"))
	if err != nil {
		t.Fatal(err)
	}
	out := map[string]*vectorFile{}
	for _, name := range names {
		if filepath.Base(name) == "request_hash.json" {
			continue // run beside sdk/wire/request_hash.go
		}
		text, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		f := new(vectorFile)
		dec := json.NewDecoder(bytes.NewReader(text))
		dec.UseNumber()
		dec.DisallowUnknownFields()
		if err := dec.Decode(f); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		out[filepath.Base(name)] = f
	}
	return out
}

// play is one case being run.
type play struct {
	*stage
	t     *testing.T
	way   string
	vars  map[string]string
	conns map[string]*line
	sse   map[string]*sseReader
}

func (s *stage) play(t *testing.T, f *vectorFile, c *vectorCase, way string) {
	p := &play{stage: s, t: t, way: way, vars: map[string]string{}, conns: map[string]*line{},
		sse: map[string]*sseReader{}}
	for name, parts := range f.Values {
		p.vars[name] = strings.Join(parts, "")
	}
	for i := range c.Steps {
		if err := p.step(&c.Steps[i]); err != nil {
			t.Errorf("step %d: %v", i+1, err)
			break
		}
	}
	for _, c := range p.conns {
		_ = c.Close() // the far end notices
	}
	for _, e := range p.sse {
		_ = e.body.Close()
	}
}

func (p *play) step(st *vectorStep) error {
	switch send := st.Send; {
	case send == nil:
		return p.more(st)
	case send.Op != "" && p.way == wayHTTP:
		return p.overHTTP(st)
	case send.Op != "":
		return p.overSocket(st)
	case send.Method != "":
		return p.overHTTP(st)
	case send.Lines != nil || send.Hex != "":
		return p.raw(st)
	}
	return errors.New("a step sends an op, a method or lines")
}

var placeholder = regexp.MustCompile(`<([A-Z][A-Z0-9_]*)(?: ([^<>]*))?>`)

// fill puts values in the place of their names.
func (p *play) fill(text string) string {
	return placeholder.ReplaceAllStringFunc(text, func(m string) string {
		sub := placeholder.FindStringSubmatch(m)
		switch name, arg := sub[1], sub[2]; name {
		case "KEY":
			return p.keys[arg].Value
		case "KEYID":
			return p.keys[arg].Key.ID
		case "REPEAT":
			count, what, _ := strings.Cut(arg, " ")
			n, err := strconv.Atoi(count)
			if err != nil {
				p.t.Fatalf("%s: %v", m, err)
			}
			return strings.Repeat(what, n)
		default:
			v, ok := p.vars[name]
			if !ok {
				p.t.Fatalf("nothing is called %s", m)
			}
			return v
		}
	})
}

func (p *play) payload(send *vectorSend) ([]byte, error) {
	switch {
	case send.Hex != "":
		return hex.DecodeString(send.Hex)
	case send.Text != "":
		return []byte(p.fill(send.Text)), nil
	case send.Body != nil:
		var b bytes.Buffer
		err := json.Compact(&b, send.Body)
		return []byte(p.fill(b.String())), err
	}
	return nil, nil
}

func (p *play) overHTTP(st *vectorStep) error {
	send := st.Send
	body, err := p.payload(send)
	if err != nil {
		return err
	}
	header := http.Header{}
	if st.As != "" {
		header.Set("Authorization", "Bearer "+p.keys[st.As].Value)
	}
	for name, v := range send.Headers {
		header.Set(name, p.fill(v))
	}
	method, path := send.Method, p.fill(send.Path)
	if send.Op != "" {
		op := benchOp(p.t, send.Op)
		method, path = op.Method, op.Path
		if method == "GET" {
			path, err = query(path, body)
			body = nil
		}
	}
	if err != nil {
		return err
	}
	a, err := p.ask(method, path, header, body)
	if err != nil {
		return err
	}
	if a.stream != nil {
		p.sse[st.Conn] = a.stream
		return errors.Join(p.checkHead(a, &st.Want), p.events(st))
	}
	var got any
	if len(a.body) > 0 {
		if got, err = decoded(string(a.body)); err != nil {
			return fmt.Errorf("%s: %w", a.body, err)
		}
	}
	code, _ := member(got, "code").(string)
	if a.status < 400 || member(got, "type") == nil {
		code = ""
	}
	err = errors.Join(p.checkHead(a, &st.Want), p.check(got, code, &st.Want), p.save(st, got), problemShape(a, got, code))
	if err != nil {
		return fmt.Errorf("%w\nanswer: %d %s", err, a.status, a.body)
	}
	return nil
}

// query writes the members of a body as a GET's query.
func query(path string, body []byte) (string, error) {
	if len(body) == 0 {
		return path, nil
	}
	var members map[string]any
	if err := json.Unmarshal(body, &members); err != nil {
		return "", err
	}
	v := url.Values{}
	for name, m := range members {
		v.Set(name, fmt.Sprint(m))
	}
	return path + "?" + v.Encode(), nil
}

// problemShape checks what every HTTP answer and every problem document promises.
func problemShape(a *answer, got any, code string) error {
	if a.header.Get("X-Request-Id") == "" {
		return errors.New("no X-Request-Id")
	}
	if code == "" {
		if a.status >= 400 && a.header.Get("X-Yett-Effect") == "" && member(got, "status") != "not_ready" {
			return fmt.Errorf("status %d without a problem", a.status)
		}
		return nil
	}
	want, known := wire.Statuses[sdk.Code(code)]
	var bad []string
	complain := func(ok bool, what string) {
		if !ok {
			bad = append(bad, what)
		}
	}
	_, isText := member(got, "detail").(string)
	complain(known && want.HTTP == a.status, "the status is not the registry's")
	complain(a.header.Get("Content-Type") == "application/problem+json", "Content-Type is no problem's")
	complain(member(got, "error") == code, "error is not code")
	complain(member(got, "title") == want.Title, "title is not the registry's")
	complain(member(got, "type") == "https://yett.dev/problems/"+code, "type")
	complain(isText, "detail is no string")
	complain(member(got, "request_id") == a.header.Get("X-Request-Id"), "request_id is not the header's")
	complain((a.status == 401) == (a.header.Get("WWW-Authenticate") == "Bearer"), "WWW-Authenticate")
	complain((a.status == 429 || a.status == 503) == (a.header.Get("Retry-After") != ""), "Retry-After")
	complain(!bytes.Contains(a.body, []byte("PERMIT")), "a problem says PERMIT")
	if bad != nil {
		return errors.New(strings.Join(bad, "; "))
	}
	return nil
}

func (p *play) checkHead(a *answer, want *vectorWant) error {
	status := want.Status
	if status == 0 {
		status = 200
		if want.Code != "" {
			status = wire.Statuses[sdk.Code(want.Code)].HTTP
		}
	}
	var bad []error
	if a.status != status {
		bad = append(bad, fmt.Errorf("status %d, want %d", a.status, status))
	}
	for name, pattern := range want.Headers {
		if ok, err := regexp.MatchString("^(?:"+p.fill(pattern)+")$", a.header.Get(name)); !ok || err != nil {
			bad = append(bad, fmt.Errorf("header %s is %q, want %s (%v)", name, a.header.Get(name), pattern, err))
		}
	}
	return errors.Join(bad...)
}

// overSocket spells an operation as a line, on a connection of its own or the one that the step names.
func (p *play) overSocket(st *vectorStep) error {
	body, err := p.payload(st.Send)
	if err != nil {
		return err
	}
	if len(body) == 0 {
		body = []byte("{}")
	}
	name, key := socketName(st.Send.Op), p.keys[st.As].Value
	if slices.IndexFunc(ops.Table, func(o ops.Op) bool { return o.Name == name && o.Socket }) < 0 {
		return fmt.Errorf("%s is not served on the socket", name)
	}
	text := fmt.Sprintf(`{"jsonrpc":"2.0","id":"v","method":%q,"api_key":%q,"params":%s}`, name, key, body)
	if p.way == wayFlat {
		head := fmt.Sprintf(`{"type":%q,"id":"v","api_key":%q`, name, key)
		if rest := strings.TrimLeft(string(body[1:]), " \n\t"); strings.HasPrefix(rest, "}") {
			text = head + rest
		} else {
			text = head + "," + rest
		}
	}
	c := p.conn(st.Conn)
	if _, err := c.Write([]byte(text + "\n")); err != nil {
		return err
	}
	return p.lines(c, []vectorWant{st.Want}, st)
}

func (p *play) conn(name string) *line {
	c := p.conns[name]
	if name == "" || c == nil {
		c = p.dial()
		p.conns[name] = c
	}
	return c
}

// raw sends lines as they are.
func (p *play) raw(st *vectorStep) error {
	c := p.conn(st.Conn)
	var text []byte
	for _, l := range st.Send.Lines {
		text = append(append(text, p.fill(l)...), '\n')
	}
	if st.Send.Hex != "" {
		more, err := hex.DecodeString(st.Send.Hex)
		if err != nil {
			return err
		}
		text = append(text, more...)
	}
	if _, err := c.Write(text); err != nil {
		return err
	}
	return p.lines(c, st.Want.Lines, st)
}

// more reads what a stream brings without being asked again.
func (p *play) more(st *vectorStep) error {
	if p.sse[st.Conn] != nil {
		return p.events(st)
	}
	c := p.conns[st.Conn]
	if c == nil {
		return fmt.Errorf("there is no connection %q", st.Conn)
	}
	return p.lines(c, st.Want.Lines, st)
}

func (p *play) events(st *vectorStep) error {
	for i := range st.Want.Events {
		text, err := p.sse[st.Conn].event()
		if err != nil {
			return err
		}
		id, data, ok := strings.Cut(text, "\n")
		if !ok || !strings.HasPrefix(id, "id: ") || !strings.HasPrefix(data, "data: ") || strings.Contains(data, "\n") {
			return fmt.Errorf("event %d is not one id line and one data line: %q", i+1, text)
		}
		got, err := decoded(data[len("data: "):])
		if err == nil {
			err = errors.Join(p.check(got, "", &st.Want.Events[i]), p.save(st, got))
		}
		if err != nil {
			return fmt.Errorf("event %d: %w\n%s", i+1, err, text)
		}
	}
	return nil
}

func (p *play) lines(c *line, wants []vectorWant, st *vectorStep) error {
	for i := range wants {
		text, err := c.read()
		if err != nil {
			return fmt.Errorf("line %d: %w", i+1, err)
		}
		if err := p.line(text, &wants[i], st); err != nil {
			return fmt.Errorf("line %d: %w\nanswer: %.2000s", i+1, err, text)
		}
	}
	if st.Want.End != "closed" {
		return nil
	}
	if text, err := c.read(); !errors.Is(err, io.EOF) {
		return fmt.Errorf("want the end, got %q, %v", text, err)
	}
	return nil
}

// line checks one line of the socket, whichever way it is spelled.
func (p *play) line(text string, want *vectorWant, st *vectorStep) error {
	got, err := decoded(text)
	if err != nil {
		return err
	}
	view, code := got, ""
	switch failed := member(got, "error"); {
	case member(got, "jsonrpc") != nil && failed != nil:
		view = member(failed, "data")
		code, _ = member(view, "code").(string)
		if n := fmt.Sprint(member(failed, "code")); n != strconv.Itoa(rpcNumber(sdk.Code(code))) ||
			want.RPC != 0 && n != strconv.Itoa(want.RPC) {
			err = fmt.Errorf("JSON-RPC error %s for %s, the registry says %d and the vector %d", n, code,
				rpcNumber(sdk.Code(code)), want.RPC)
		}
	case member(got, "jsonrpc") != nil:
		view = member(got, "result")
	case member(got, "ok") == false:
		code, _ = member(got, "code").(string)
	}
	if code != "" && strings.Contains(text, "PERMIT") {
		err = errors.Join(err, errors.New("an error says PERMIT"))
	}
	if st.Send != nil && st.Send.Op != "" && code != "invalid_json" && code != "too_large" && member(got, "id") != "v" {
		err = errors.Join(err, errors.New("the id does not come back"))
	}
	if want.Whole != nil {
		err = errors.Join(err, p.within(got, want.Whole, "line"))
	}
	return errors.Join(err, p.check(view, code, want), p.save(st, view))
}
