package core

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"regexp"
	"slices"
	"strings"

	"github.com/yett-dev/yett/sdk"
	"github.com/yett-dev/yett/sdk/exact"
	"github.com/yett-dev/yett/sdk/wire"
)

// example is one fenced block of PROTOCOL.md.
type example struct {
	section string // the heading of level 2 that it is under
	kind    string // http or socket
	line    int
	text    string
}

// performer sends the requests of PROTOCOL.md in the order of the document and holds the answers to it. It gives each
// block as it should be: the same text, or with what the gateway answers now.
type performer struct {
	*stage
	vars map[string]string
	last *answer // of the request whose answer comes next
}

func (p *performer) perform(ex *example) (string, error) {
	switch {
	case ex.kind == "socket":
		return p.talk(ex.text)
	case strings.HasPrefix(ex.text, "HTTP/1.1 "):
		if p.last == nil {
			return "", errors.New("an answer without a request before it")
		}
		defer func() { p.last = nil }()
		return p.answered(ex.text)
	case p.last != nil:
		return "", errors.New("the request before has no answer")
	}
	return ex.text, p.request(ex.text)
}

// fill puts values in the place of names; <AGENT_KEY> is the value of the key called agent.
func (p *performer) fill(text string) (string, error) {
	var unknown error
	out := placeholder.ReplaceAllStringFunc(text, func(m string) string {
		name := m[1 : len(m)-1]
		if v, ok := p.vars[name]; ok {
			return v
		}
		if key, ok := strings.CutSuffix(name, "_KEY"); ok && p.keys[strings.ToLower(key)].Key != nil {
			return p.keys[strings.ToLower(key)].Value
		}
		unknown = fmt.Errorf("no answer before this has shown what %s is", m)
		return m
	})
	return out, unknown
}

// head takes a block apart into its first line, headers and body.
func head(text string) (first string, headers [][2]string, body string, err error) {
	top, body, _ := strings.Cut(text, "\n\n")
	lines := strings.Split(strings.TrimSuffix(top, "\n"), "\n")
	for _, l := range lines[1:] {
		name, value, ok := strings.Cut(l, ": ")
		if !ok {
			return "", nil, "", fmt.Errorf("%q is no header", l)
		}
		headers = append(headers, [2]string{name, value})
	}
	return lines[0], headers, body, nil
}

func (p *performer) request(text string) error {
	text, err := p.fill(text)
	if err != nil {
		return err
	}
	first, headers, body, err := head(text)
	if err != nil {
		return err
	}
	parts := strings.Split(first, " ")
	if len(parts) != 3 || parts[2] != "HTTP/1.1" {
		return fmt.Errorf("%q is no request line", first)
	}
	h := http.Header{}
	for _, nv := range headers {
		if nv[0] == "Host" {
			continue // the stage's own
		}
		h.Add(nv[0], nv[1])
	}
	p.last, err = p.ask(parts[0], parts[1], h, []byte(strings.TrimSuffix(body, "\n")))
	return err
}

func (p *performer) answered(text string) (string, error) {
	_, headers, body, err := head(text)
	if err != nil {
		return "", err
	}
	var out strings.Builder
	fmt.Fprintf(&out, "HTTP/1.1 %d %s\n", p.last.status, http.StatusText(p.last.status))
	for _, nv := range headers {
		got := p.last.header.Get(nv[0])
		if norm(nv[1]) == norm(got) {
			got = nv[1]
		}
		fmt.Fprintf(&out, "%s: %s\n", nv[0], got)
	}
	out.WriteByte('\n')
	if p.last.stream != nil {
		err = p.streamed(&out, body)
		return out.String(), errors.Join(err, p.last.stream.body.Close())
	}
	fresh, err := p.refresh(body, string(p.last.body))
	if err == nil {
		err = p.titled(fresh)
	}
	out.WriteString(wrap(fresh, " ") + "\n")
	return out.String(), err
}

// titled holds a problem to the registry, so that none is shown which is not.
func (p *performer) titled(body string) error {
	if p.last.header.Get("Content-Type") != "application/problem+json" {
		return nil
	}
	v, err := decoded(body)
	if code, _ := member(v, "code").(string); err == nil && wire.Statuses[sdk.Code(code)].HTTP != p.last.status {
		err = fmt.Errorf("code %q is not answered with %d", code, p.last.status)
	}
	return err
}

// streamed reads as many blocks of a stream as the document shows.
func (p *performer) streamed(out *strings.Builder, body string) error {
	for _, want := range strings.Split(strings.TrimSuffix(body, "\n"), "\n\n") {
		got, err := p.last.stream.block()
		if err != nil {
			return err
		}
		id, data, isEvent := strings.Cut(got, "\ndata: ")
		if !isEvent {
			out.WriteString(got + "\n\n")
			continue
		}
		wantID, wantData, _ := strings.Cut(joinWrapped(want), "\ndata: ")
		if digits.ReplaceAllString(wantID, "0") == digits.ReplaceAllString(id, "0") {
			id = wantID
		}
		fresh, err := p.refresh(wantData, data)
		if err != nil {
			return err
		}
		out.WriteString(id + "\n" + wrap("data: "+fresh, "  ") + "\n\n")
	}
	text := strings.TrimSuffix(out.String(), "\n")
	out.Reset()
	out.WriteString(text)
	return nil
}

// joinWrapped undoes the line breaks that are there for reading: a line that begins with a space goes on the one
// before.
func joinWrapped(text string) string {
	return regexp.MustCompile(`\n +`).ReplaceAllString(text, "")
}

// talk plays one connection: "> " is sent, "< " is read, and "(end)" is the end of what the server sends.
func (p *performer) talk(text string) (string, error) {
	c := p.dial()
	defer func() { _ = c.Close() }() // the far end notices
	var out strings.Builder
	for _, l := range strings.Split(strings.TrimSuffix(joinWrapped(text), "\n"), "\n") {
		mark, rest, _ := strings.Cut(l, " ")
		switch {
		case mark == ">":
			sent, err := p.fill(rest)
			if err != nil {
				return "", err
			}
			if _, err := io.WriteString(c, sent+"\n"); err != nil {
				return "", err
			}
			out.WriteString(wrap(l, "   ") + "\n")
		case l == "(end)":
			if got, err := c.read(); !errors.Is(err, io.EOF) {
				return "", fmt.Errorf("want the end, got %q, %v", got, err)
			}
			out.WriteString(l + "\n")
		case mark == "<":
			got, err := c.read()
			if err != nil {
				return "", err
			}
			fresh, err := p.refresh(rest, got)
			if err != nil {
				return "", err
			}
			out.WriteString(wrap("< "+fresh, "   ") + "\n")
		default:
			return "", fmt.Errorf("%q begins with neither > nor <", l)
		}
	}
	return out.String(), nil
}

// refresh is what the gateway has answered, but with the document's values where they differ only in what differs from
// run to run, and with its names of values in their place.
func (p *performer) refresh(doc, got string) (string, error) {
	var g, d exact.Doc
	if err := g.Parse(got, exact.DefaultLimits); err != nil {
		return "", fmt.Errorf("%w: %s", err, got)
	}
	if err := d.Parse(strings.ReplaceAll(doc, elided, elidedJSON), exact.DefaultLimits); err != nil {
		return "", fmt.Errorf("the document: %w: %s", err, doc)
	}
	var out bytes.Buffer
	p.render(&out, d.Root(), g.Root(), "")
	var tight bytes.Buffer
	err := json.Compact(&tight, out.Bytes())
	return strings.ReplaceAll(tight.String(), elidedJSON, elided), err
}

// An object that ends with elided shows some of its members only.
const elided, elidedJSON = ",…}", `,"…":0}`

// counted are numbers that differ from run to run, and owned are members that hold the id of a key.
var (
	counted = []string{"latency_ms", "latency_us", "micros", "seq", "from_seq", "last_seq", "retry_after_seconds",
		"after_seconds"}
	owned = []string{"by", "key_id", "resolved_by", "issued_by", "issuers", "principal_id", "approver_id", "revoked_by",
		"asked_by", "signed"}
	keyForm = regexp.MustCompile(`^[0-9A-Za-z]{12}$`)
	digits  = regexp.MustCompile(`[0-9]+`)
)

func (p *performer) render(out *bytes.Buffer, doc, got exact.Value, name string) {
	switch got.Kind() {
	case exact.Object:
		sep := "{"
		some := doc.Kind() == exact.Object && doc.Get("…").Exists()
		for n, v := range got.Members() {
			if some && !doc.Get(n).Exists() {
				continue
			}
			out.WriteString(sep)
			out.Write(exact.AppendString(nil, n))
			out.WriteByte(':')
			var of exact.Value
			if doc.Kind() == exact.Object {
				of = doc.Get(n)
			}
			p.render(out, of, v, n)
			sep = ","
		}
		switch {
		case some:
			out.WriteString(sep + `"…":0`)
		case sep == "{":
			out.WriteString(sep)
		}
		out.WriteByte('}')
	case exact.Array:
		out.WriteByte('[')
		for i := range got.Len() {
			if i > 0 {
				out.WriteByte(',')
			}
			var of exact.Value
			if doc.Kind() == exact.Array && i < doc.Len() {
				of = doc.Index(i)
			}
			p.render(out, of, got.Index(i), name)
		}
		out.WriteByte(']')
	default:
		out.WriteString(p.leaf(doc, got, name))
	}
}

func (p *performer) leaf(doc, got exact.Value, name string) string {
	switch {
	case doc.Kind() != got.Kind():
	case got.Kind() == exact.Number && slices.Contains(counted, name):
		return doc.Raw()
	case got.Kind() != exact.String:
	case placeholder.FindString(doc.Str()) == doc.Str() && doc.Str() != "":
		label := doc.Str()[1 : len(doc.Str())-1]
		if known, ok := p.vars[label]; !ok {
			p.vars[label] = got.Str()
			return doc.Raw()
		} else if known == got.Str() {
			return doc.Raw()
		}
	case slices.Contains(owned, name) && keyForm.MatchString(doc.Str()) && keyForm.MatchString(got.Str()):
		return doc.Raw()
	case name == "request_hash":
	default:
		if norm(doc.Str()) == norm(got.Str()) {
			return doc.Raw()
		}
		if filled, err := p.fill(doc.Str()); err == nil && norm(filled) == norm(got.Str()) {
			return doc.Raw()
		}
	}
	return got.Raw()
}

// forms are texts that differ from run to run, with what all of their form are taken for.
var forms = []struct {
	re *regexp.Regexp
	to string
}{
	{regexp.MustCompile(`\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z`), "TIME"},
	{regexp.MustCompile(`\b(dec|call|scn|act|evt|stg|dfr|req|sto)_[0-9A-Za-z_-]{16,}`), "$1"},
	{regexp.MustCompile(`\bpol_[0-9a-f]{16}\b`), "POLICY"},
	{regexp.MustCompile(`\b[0-9a-f]{64}\b`), "HASH"},
	{regexp.MustCompile(`\b127\.0\.0\.1:\d+|\buid:\d+,pid:\d+`), "PEER"},
	{regexp.MustCompile(`\bby [0-9A-Za-z]{12}\b`), "by KEY"},
}

// norm takes away what differs from run to run.
func norm(text string) string {
	for _, f := range forms {
		text = f.re.ReplaceAllString(text, f.to)
	}
	return text
}

// wide is where lines are wrapped, in bytes.
const wide = 116

// wrap breaks a long line of JSON behind commas; indent begins the lines that follow.
func wrap(text, indent string) string {
	var out strings.Builder
	width, from, quoted := 0, 0, false
	flush := func(to int) {
		piece := text[from:to]
		if width > 0 && width+len(piece) > wide {
			out.WriteString("\n" + indent)
			width = len(indent)
		}
		out.WriteString(piece)
		width += len(piece)
		from = to
	}
	for i := 0; i < len(text); i++ {
		switch c := text[i]; {
		case c == '\\' && quoted:
			i++
		case c == '"':
			quoted = !quoted
		case c == ',' && !quoted:
			flush(i + 1)
		}
	}
	flush(len(text))
	return out.String()
}
