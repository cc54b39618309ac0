package client

import (
	"bufio"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/yett-dev/yett/sdk/exact"
	"github.com/yett-dev/yett/sdk/wire"
)

// FuzzDecision: whatever the body is, a permit is only what strict JSON with exactly one effect PERMIT says.
func FuzzDecision(f *testing.F) {
	for _, s := range []string{decisionText("PERMIT", "c"), decisionText("DENY", "c"),
		decisionText("DEFER", "c", `"checks":[{"name":"n","micros":1}]`), `{"effect":"PERMIT"}`, `[]`, ``,
		`{"code":"internal","detail":"x"}`} {
		f.Add(200, "application/json", s)
		f.Add(403, "application/json", s)
		f.Add(503, "application/problem+json", s)
	}
	f.Fuzz(func(t *testing.T, status int, kind, body string) {
		resp := &http.Response{StatusCode: status, Header: http.Header{"Content-Type": {kind}}}
		r, err := readHTTP(resp, body, &request{op: opAuthorize})
		if err != nil {
			if r != nil {
				t.Fatal("an answer beside an error")
			}
			return
		}
		d, err := decisionIn(r, "c")
		if err != nil || !d.Permitted() {
			if d.Permitted() {
				t.Fatal("a permit beside an error")
			}
			return
		}
		var doc exact.Doc
		if status != 200 || doc.Parse(body, answerLimits) != nil || doc.Root().Get("effect").Str() != "PERMIT" ||
			doc.Root().Get("call_id").Str() != "c" {
			t.Fatalf("permitted by %d %q", status, body)
		}
		for _, known := range []any{new(wire.ScanResponse), new(Action), new(PendingList), new(DeferStatus),
			new(wire.GrantListResponse), new(wire.KillResponse), new(Event)} {
			_ = into(doc.Root(), known) // must not panic on members of any type
		}
	})
}

// FuzzInto: the decoder never panics, and reads what encoding/json writes.
func FuzzInto(f *testing.F) {
	f.Add(`{"approvals":[{"defer_token":"d","call":{"a":[1]},"approvals":2}],"total":3}`)
	f.Add(`{"outcome":"PASS","findings":[{"start":1e0,"confidence":0.5}],"sanitized_output":null}`)
	f.Add(`{"grants":[{"max_uses":99999999999999999999}],"killed":{"active":1}}`)
	f.Fuzz(func(t *testing.T, body string) {
		root, err := parse(body)
		if err != nil {
			return
		}
		for _, dst := range []any{new(wire.ScanResponse), new(Action), new(DeferStatus), new(wire.GrantListResponse),
			new(wire.KillResponse), new(Event), new(Gate), new(wire.ApproveResponse), new(ActionRecord)} {
			_ = into(root, dst)
		}
		var list, again PendingList
		if into(root, &list) != nil {
			return
		}
		b, err := json.Marshal(&list)
		if err != nil {
			return // call is absent: there is nothing to write
		}
		back, err := parse(string(b))
		if err != nil || into(back, &again) != nil || len(again.Approvals) != len(list.Approvals) ||
			again.Total != list.Total {
			t.Fatalf("%s came back as %+v (%v)", b, again, err)
		}
	})
}

// FuzzSSE: however the bytes arrive, the same events come out, and each is ended by an empty line of the input.
func FuzzSSE(f *testing.F) {
	f.Add("id: 1\ndata: a\n\ndata: b\r\n\r\n")
	f.Add("data\r\rid: 2\rdata: x\r\n\r")
	f.Add("\uFEFF:c\n\n\ndata:\x00\n\n")
	f.Fuzz(func(t *testing.T, in string) {
		whole, err1 := sseAll(strings.NewReader(in))
		bytes, err2 := sseAll(iotest.OneByteReader(strings.NewReader(in)))
		if strings.Join(whole, "\x01") != strings.Join(bytes, "\x01") || (err1 == nil) != (err2 == nil) {
			t.Fatalf("%q byte for byte %q", whole, bytes)
		}
		unix := strings.NewReplacer("\r\n", "\n", "\r", "\n").Replace(in)
		same, _ := sseAll(strings.NewReader(unix))
		if strings.Join(whole, "\x01") != strings.Join(same, "\x01") {
			t.Fatalf("%q with other line ends %q", whole, same)
		}
		if len(whole) > strings.Count(unix, "\n\n")+strings.Count(unix, "\n") {
			t.Fatalf("%d events of %q", len(whole), in)
		}
	})
}

// FuzzSocketLine: no line that is not the whole, well-formed answer to this request is an answer to it, and no stream
// line makes the stream go back.
func FuzzSocketLine(f *testing.F) {
	f.Add(`{"id":1,` + decisionText("PERMIT", "c")[1:] + "\n")
	f.Add(`{"ok":false,"error":"x","code":"internal","id":1}` + "\n")
	f.Add(record(5) + "\n" + record(4) + "\n" + `{"type":"gap","last_seq":9}` + "\n")
	f.Add(`{"type":"closing","reason":"x","last_seq":3}` + "\n" + `{"type":"heartbeat","seq":1}`)
	f.Fuzz(func(t *testing.T, in string) {
		r := bufio.NewReaderSize(strings.NewReader(in), 16)
		sub := &subscription{from: 3}
		rest := in
		for {
			line, err := readLine(r)
			if err != nil {
				if !errors.Is(err, io.EOF) && !errors.Is(err, io.ErrUnexpectedEOF) {
					t.Fatal(err)
				}
				return
			}
			want, after, _ := strings.Cut(rest, "\n")
			if rest = after; line != want {
				t.Fatalf("line %q, want %q", line, want)
			}
			root, err := openAnswer(1, line)
			if err == nil && root.Get("id").Raw() != "1" {
				t.Fatalf("%q is an answer to request 1", line)
			}
			if root, err = parse(line); err != nil {
				continue
			}
			before := sub.from
			rec, err := sub.sortLine(root)
			if sub.from < before || err == nil && rec.Seq != 0 && (rec.Seq < before || sub.from != rec.Seq+1) {
				t.Fatalf("%q: from %d to %d", line, before, sub.from)
			}
		}
	})
}
