package feed

import (
	"bytes"
	"context"
	"strings"
	"testing"
)

// decided is a record as the store writes it.
const decided = `{"v":1,"seq":7,"store_id":"sto_01","timestamp":"2026-11-21T10:00:00.000000001Z","type":"decision","principal_id":"key_01","principal_method":"api_key","surface":"http","decision_id":"dec_01","call_id":"c-1","agent_id":"support-1","session_id":"s-1","tool_id":"stripe/refund","effect":"DENY","reason_code":"RULE","reason":"a \"secret\" of größe","policy_version":"p1","latency_us":-12,"digest":"00ff","args":{"a":"secret","deep":[1.50,{"reason":"x"}]},"checks":[{"name":"house","effect":"DENY","shadow":true},{"name":"b","effect":"ABSTAIN"}],"more":[],"none":null}`

// What needs no parser is delivered as if it had been parsed; what may need one is left to it.
func TestQuick(t *testing.T) {
	for _, c := range []struct {
		name, rec string
		quick     bool
	}{
		{"a decision", decided, true},
		{"nothing", `{}`, true},
		{"only args", `{"args":{"a":1}}`, true},
		{"empty args and texts", `{"args":{},"context":[],"reason":""}`, true},
		{"args that are a text", `{"args":"secret"}`, true},
		{"a text that is none", `{"reason":{"x":"secret"},"message":["secret"],"note":1}`, true},
		{"a tool with an escape", `{"tool_id":"a\/b","reason":"secret"}`, true},
		{"a text that cannot be masked", `{"reason":"broken","args":{"a":"broken"}}`, true},
		{"masked JSON that is none", `{"args":{"a":"torn"},"reason":"torn"}`, true},
		{"a text further in", `{"checks":[{"name":"a","error":"secret"}]}`, false},
		{"a text further in, of an object", `{"x":{"y":{"why":"secret"}}}`, false},
		{"UTF-16", `{"reason":"\u0073ecret"}`, false},
		{"an escape in a name", `{"rea\u0073on":"secret"}`, false},
		{"another escape in a name", `{"\/":"secret"}`, false},
		{"a name twice", `{"reason":"a","reason":"secret"}`, false},
		{"a name twice further in", `{"x":{"a":1,"a":2}}`, false},
		{"white space", `{"a": 1}`, false},
		{"fractions", `{"a":-1.0,"b":0.250}`, true},
		{"half a fraction", `{"a":1.}`, false},
		{"no whole", `{"a":.5}`, false},
		{"a long number", `{"a":123456789012345678901}`, false},
		{"a power", `{"a":1e3}`, false},
		{"a zero in front", `{"a":01}`, false},
		{"a sign", `{"a":-}`, false},
		{"no word", `{"a":nul}`, false},
		{"a control character", "{\"a\":\"\x01\"}", false},
		{"no UTF-8", "{\"a\":\"\xff\"}", false},
		{"no end", `{"a":[1,{"b":"c`, false},
		{"a comma at the end", `{"a":1,}`, false},
		{"a comma at the end of a list", `{"a":[1,]}`, false},
		{"more behind it", `{"a":1}{}`, false},
		{"no object", `[1]`, false},
		{"deep", strings.Repeat(`{"a":`, 20) + `1` + strings.Repeat(`}`, 20), false},
		{"many members", `{"a":[` + strings.Repeat(`{"b":1},`, 100) + `{` + manyMembers(quickMembers+1) + `}]}`, false},
		{"not so many", `{` + manyMembers(quickMembers) + `}`, true},
	} {
		for _, kind := range []string{PayloadRedacted, PayloadDigest, PayloadFull} {
			quick := payload{kind: kind, bare: kind == PayloadFull, mask: masker}
			out, ok := quick.quick(context.Background(), nil, []byte(c.rec))
			if kind == PayloadRedacted && ok != c.quick {
				t.Errorf("%s: quick is %v", c.name, ok)
			}
			parsed := payload{kind: kind, bare: kind == PayloadFull, mask: masker}
			if want := parsed.parsed(context.Background(), 7, []byte(c.rec)); ok && string(out) != string(want) {
				t.Errorf("%s, %s:\n got %s\nwant %s", c.name, kind, out, want)
			}
		}
	}
}

func manyMembers(n int) string {
	var b strings.Builder
	for i := range n {
		if i > 0 {
			b.WriteByte(',')
		}
		b.WriteString(`"m` + string(rune('a'+i/26)) + string(rune('a'+i%26)) + `":0`)
	}
	return b.String()
}

// The quick way delivers what the parser's does, or nothing.
func FuzzQuick(f *testing.F) {
	f.Add([]byte(decided))
	f.Add([]byte(`{"tool_id":"a\/b","reason":"secret","checks":[{"error":"broken"}]}`))
	f.Add([]byte(`{"args":{"a":"torn"},"x":[true,false,null,-0,12],"y":{"z":"\n"}}`))
	f.Fuzz(func(t *testing.T, rec []byte) {
		for _, kind := range []string{PayloadRedacted, PayloadDigest, PayloadFull} {
			quick, parsed := payload{kind: kind, bare: kind == PayloadFull, mask: masker},
				payload{kind: kind, bare: kind == PayloadFull, mask: masker}
			out, ok := quick.quick(context.Background(), nil, rec)
			if want := parsed.parsed(context.Background(), 7, rec); ok && !bytes.Equal(out, want) {
				t.Fatalf("%s of %q:\n got %s\nwant %s", kind, rec, out, want)
			}
		}
	})
}

// A usual record costs what is delivered and no more: its garbage is the decisions' pause.
func TestQuickAllocates(t *testing.T) {
	p := payload{kind: PayloadRedacted, mask: masker}
	rec := []byte(strings.Replace(strings.Replace(decided, `"args":{"a":"secret","deep":[1.50,{"reason":"x"}]},`, "", 1),
		`a \"secret\" of größe`, "no rule permits it", 1))
	if n := testing.AllocsPerRun(100, func() { p.of(context.Background(), 7, rec) }); n > 5 {
		t.Errorf("%v allocations for one record", n)
	}
}

func BenchmarkPayload(b *testing.B) {
	for _, kind := range []string{PayloadRedacted, PayloadDigest, PayloadFull} {
		rec := []byte(strings.Replace(decided, `"args":{"a":"secret","deep":[1.50,{"reason":"x"}]},`, "", 1))
		b.Run(kind, func(b *testing.B) {
			p := payload{kind: kind, mask: masker}
			b.ReportAllocs()
			b.SetBytes(int64(len(rec)))
			for b.Loop() {
				p.of(context.Background(), 7, rec)
			}
		})
		b.Run(kind+"/parsed", func(b *testing.B) {
			p := payload{kind: kind, mask: masker}
			b.ReportAllocs()
			for b.Loop() {
				p.parsed(context.Background(), 7, rec)
			}
		})
	}
}
