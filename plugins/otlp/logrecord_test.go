package main

import (
	"bufio"
	"bytes"
	"encoding/json"
	"math"
	"os"
	"strings"
	"testing"
	"time"

	commonpb "go.opentelemetry.io/proto/otlp/common/v1"
	logspb "go.opentelemetry.io/proto/otlp/logs/v1"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"

	"github.com/yett-dev/yett/sdk/exact"
	"github.com/yett-dev/yett/sdk/plugin"
	"github.com/yett-dev/yett/sdk/plugin/plugintest"
)

func golden(t *testing.T, path string, got []byte) {
	t.Helper()
	if os.Getenv("GOLDEN") == "write" {
		if err := os.WriteFile(path, got, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(got, want) {
		t.Errorf("%s differs; GOLDEN=write rewrites it. Got:\n%s", path, got)
	}
}

func readLines(t testing.TB, path string) []string {
	t.Helper()
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = f.Close() }()
	var out []string
	s := bufio.NewScanner(f)
	s.Buffer(nil, 16<<20)
	for s.Scan() {
		out = append(out, s.Text())
	}
	if s.Err() != nil {
		t.Fatal(s.Err())
	}
	return out
}

func TestRequestGolden(t *testing.T) {
	log := plugintest.Log{StoreID: "sto_TEST"}
	b := log.Append(append(readLines(t, "testdata/records.jsonl"), `{}`, `{}`)...)
	b.Gap, b.Replay = &plugin.Gap{First: 8, Last: 9, Reason: "retention"}, true
	b.Records = b.Records[:7]
	for _, body := range []string{"structured", bodyText} {
		o := &options{body: body, service: "yett",
			resource: map[string]string{"deployment.environment.name": "test", "cloud.region": "x"}}
		raw, err := protojson.Marshal(o.request(b.StoreID, o.items(b, time.Unix(1_800_000_000, 7))))
		if err != nil {
			t.Fatal(err)
		}
		var out bytes.Buffer
		if err := json.Indent(&out, raw, "", " "); err != nil { // protojson varies its spaces on purpose
			t.Fatal(err)
		}
		golden(t, "testdata/request_"+body+".golden", append(out.Bytes(), '\n'))
	}
}

func TestNumbersAreNeverRounded(t *testing.T) {
	for raw, want := range map[string]any{
		"0": int64(0), "-1": int64(-1), "9223372036854775807": int64(math.MaxInt64),
		"-9223372036854775808": int64(math.MinInt64), "9223372036854775808": "9223372036854775808",
		"-9223372036854775809": "-9223372036854775809", "18446744073709551616": "18446744073709551616", "0.1": 0.1,
		"1.0": 1.0, "1e3": 1000.0, "-2.5E-3": -0.0025, "0.10000000000000001": "0.10000000000000001",
		"0.12345678901234567890": "0.12345678901234567890", "1e400": "1e400", "1e-400": "1e-400",
		"123456789012345678.5": "123456789012345678.5", "5e-324": 5e-324, "4e-324": "4e-324",
		"1.7976931348623157e308": math.MaxFloat64, "-0": math.Copysign(0, -1),
	} {
		v := number(raw)
		var got any
		switch v := v.Value.(type) {
		case *commonpb.AnyValue_IntValue:
			got = v.IntValue
		case *commonpb.AnyValue_DoubleValue:
			got = v.DoubleValue
		case *commonpb.AnyValue_StringValue:
			got = v.StringValue
		}
		if got != want {
			t.Errorf("%s became %T %v", raw, got, got)
		}
	}
}

// A body nests at most so deeply that decoders in other languages, which stop at 100 messages, take it.
func TestDeepBodies(t *testing.T) {
	for name, pair := range map[string][2]string{"objects": {`{"a":`, "}"}, "arrays": {"[", "]"}} {
		const n = 60
		line := `{"args":` + strings.Repeat(pair[0], n) + "1" + strings.Repeat(pair[1], n) + "}"
		o := &options{}
		rec := o.logRecord(&plugin.Record{Seq: 1, JSON: []byte(line)}, false, 0)
		raw, err := proto.Marshal(o.request("s", []item{{1, rec}}))
		if err != nil {
			t.Fatal(err)
		}
		err = proto.UnmarshalOptions{RecursionLimit: 100}.Unmarshal(raw, o.request("s", nil))
		if err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if text := rec.String(); !strings.Contains(text, strings.Repeat(strings.ReplaceAll(pair[0], `"`, `\"`), 3)) {
			t.Errorf("%s: what is deeper is not there as text: %.300s", name, text)
		}
	}
}

func TestSeverity(t *testing.T) {
	for line, want := range map[string]string{
		`{"type":"decision","effect":"PERMIT"}`:           "INFO",
		`{"type":"decision","effect":"DEFER"}`:            "INFO2",
		`{"type":"decision","effect":"DENY"}`:             "WARN",
		`{"type":"scan","outcome":"PASS"}`:                "INFO",
		`{"type":"scan","outcome":"WARNED"}`:              "INFO2",
		`{"type":"scan","outcome":"REDACTED"}`:            "INFO2",
		`{"type":"scan","outcome":"DENIED"}`:              "WARN",
		`{"type":"kill"}`:                                 "WARN",
		`{"type":"auth_failed"}`:                          "WARN",
		`{"type":"unanswered"}`:                           "ERROR",
		`{"type":"subscriber_gap"}`:                       "ERROR",
		`{"type":"plugin_state","to":"backoff"}`:          "WARN",
		`{"type":"plugin_state","to":"quarantined"}`:      "ERROR",
		`{"type":"mcp_tool","state":"changed"}`:           "WARN",
		`{"type":"mcp_tool","state":"new"}`:               "INFO2",
		`{"type":"mcp_tool","state":"accepted"}`:          "INFO2",
		`{"type":"mcp_tool","state":"restored"}`:          "INFO",
		`{"type":"key_created"}`:                          "INFO",
		`{"type":"a_type_that_nobody_knows","effect":""}`: "INFO",
		`no record`: "ERROR",
	} {
		rec := (&options{}).logRecord(&plugin.Record{JSON: []byte(line)}, false, 0)
		if rec.SeverityText != want || severityText[rec.SeverityNumber] != want {
			t.Errorf("%s: %s %s", line, rec.SeverityText, rec.SeverityNumber)
		}
	}
}

// plain turns OTLP's value back into JSON's, with numbers as text.
func plain(v *commonpb.AnyValue) any {
	switch v := v.GetValue().(type) {
	case *commonpb.AnyValue_BoolValue:
		return v.BoolValue
	case *commonpb.AnyValue_IntValue:
		return exact.FromInt64(v.IntValue).String()
	case *commonpb.AnyValue_DoubleValue:
		raw, _ := json.Marshal(v.DoubleValue)
		return decimal(string(raw))
	case *commonpb.AnyValue_StringValue:
		return v.StringValue
	case *commonpb.AnyValue_ArrayValue:
		out := []any{}
		for _, e := range v.ArrayValue.GetValues() {
			out = append(out, plain(e))
		}
		return out
	case *commonpb.AnyValue_KvlistValue:
		out := map[string]any{}
		for _, kv := range v.KvlistValue.GetValues() {
			out[kv.GetKey()] = plain(kv.GetValue())
		}
		return out
	}
	return nil
}

func decimal(raw string) string {
	d, err := exact.ParseDecimal(raw)
	if err != nil {
		return raw
	}
	return d.String()
}

// expected is the same of the record itself.
func expected(v exact.Value, depth int) any {
	switch v.Kind() {
	case exact.Bool:
		return v.Bool()
	case exact.Number:
		if n := number(v.Raw()); n.GetStringValue() != "" {
			return v.Raw()
		}
		return decimal(v.Raw())
	case exact.String:
		return v.Str()
	case exact.Array:
		if depth >= maxDepth {
			return v.Raw()
		}
		out := []any{}
		for e := range v.Elements() {
			out = append(out, expected(e, depth+1))
		}
		return out
	case exact.Object:
		if depth >= maxDepth {
			return v.Raw()
		}
		out := map[string]any{}
		for name, m := range v.Members() {
			out[name] = expected(m, depth+1)
		}
		return out
	}
	return nil
}

func same(a, b any) bool {
	x, errX := json.Marshal(a)
	y, errY := json.Marshal(b)
	return errX == nil && errY == nil && bytes.Equal(x, y)
}

// FuzzLogRecord wants every line to become a record that can be encoded and that says what the line says.
func FuzzLogRecord(f *testing.F) {
	for _, l := range readLines(f, "testdata/records.jsonl") {
		f.Add([]byte(l))
	}
	f.Add([]byte{0xff, '{'})
	f.Add([]byte(`{"a":"\u0000"}`))
	f.Fuzz(func(t *testing.T, line []byte) {
		for _, body := range []string{"structured", bodyText} {
			o := &options{body: body}
			rec := o.logRecord(&plugin.Record{Seq: math.MaxUint64, JSON: line}, true, 1)
			raw, err := proto.Marshal(rec)
			if err != nil {
				t.Fatal(err)
			}
			var back logspb.LogRecord
			if err := proto.Unmarshal(raw, &back); err != nil {
				t.Fatal(err)
			}
			var doc exact.Doc
			if doc.Parse(string(line), recordLimits) != nil || doc.Root().Kind() != exact.Object || body == bodyText {
				if got := back.Body.GetStringValue() + string(back.Body.GetBytesValue()); got != string(line) {
					t.Fatalf("%q became %q", line, got)
				}
				continue
			}
			if got, want := plain(back.Body), expected(doc.Root(), 0); !same(got, want) {
				t.Fatalf("%q became %v, not %v", line, got, want)
			}
		}
	})
}
