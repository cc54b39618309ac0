package main

import (
	"encoding/hex"
	"time"
	"unicode/utf8"

	commonpb "go.opentelemetry.io/proto/otlp/common/v1"
	logspb "go.opentelemetry.io/proto/otlp/logs/v1"

	"github.com/yett-dev/yett/sdk/exact"
	"github.com/yett-dev/yett/sdk/plugin"
)

// recordLimits bound one record: a line of the log is at most a few MiB, of args that may nest as deeply as a call may.
var recordLimits = exact.Limits{Depth: 128, Tokens: 4 << 20}

// members are copied into attributes "yett.NAME" when a record has them as text: what people filter by.
var members = [...]string{
	"agent_id", "session_id", "tool_id", "operation", "call_id", "decision_id", "effect", "outcome", "reason_code",
	"rule_id", "principal_id", "surface", "defer_token", "grant_id", "key_id", "scope", "target", "plugin",
}

// item is one log record and the number of the log that it stands for.
type item struct {
	seq uint64
	log *logspb.LogRecord
}

// items makes a batch's log records, in the order of the log: a gap stands where its first record would have been.
func (o *options) items(b *plugin.Batch, now time.Time) []item {
	observed := uint64(now.UnixNano())
	out := make([]item, 0, len(b.Records)+1)
	gap := b.Gap
	for i := range b.Records {
		r := &b.Records[i]
		if gap != nil && gap.First <= r.Seq {
			out, gap = append(out, gapItem(gap, observed)), nil
		}
		out = append(out, item{r.Seq, o.logRecord(r, b.Replay, observed)})
	}
	if gap != nil {
		out = append(out, gapItem(gap, observed))
	}
	return out
}

// logRecord makes the log record of one line. It cannot fail: a line that is not strict JSON goes as the text it is,
// and bytes that are no text go as bytes, with yett.malformed set.
func (o *options) logRecord(r *plugin.Record, replay bool, observed uint64) *logspb.LogRecord {
	out := &logspb.LogRecord{ObservedTimeUnixNano: observed}
	out.Attributes = append(make([]*commonpb.KeyValue, 0, 12), attr("yett.seq", count(r.Seq)))
	var doc exact.Doc
	err := doc.Parse(string(r.JSON), recordLimits)
	root := doc.Root()
	if err != nil || root.Kind() != exact.Object {
		malformed(out, r.JSON)
	} else {
		describe(out, root)
		if o.body == bodyText {
			out.Body = text(string(r.JSON))
		} else {
			out.Body = anyValue(root, 0)
		}
	}
	out.Attributes = append(out.Attributes, attr("yett.leaf_hash", text(hex.EncodeToString(r.Leaf[:]))))
	if replay {
		out.Attributes = append(out.Attributes, attr("yett.replay", boolean(true)))
	}
	return out
}

// describe fills everything but the body from the record's members.
func describe(out *logspb.LogRecord, root exact.Value) {
	typ := root.Get("type").Str()
	out.EventName = typ
	out.Attributes = append(out.Attributes, attr("yett.type", text(typ)))
	if at, err := time.Parse(time.RFC3339Nano, root.Get("timestamp").Str()); err == nil && at.Year() >= 1970 &&
		at.Year() < 2262 {
		out.TimeUnixNano = uint64(at.UnixNano())
	}
	out.SeverityNumber = severity(typ, root)
	out.SeverityText = severityText[out.SeverityNumber]
	if id, err := hex.DecodeString(root.Get("trace_id").Str()); err == nil && len(id) == 16 {
		out.TraceId = id
	}
	for _, name := range members {
		if v := root.Get(name).Str(); v != "" {
			out.Attributes = append(out.Attributes, attr("yett."+name, text(v)))
		}
	}
}

func malformed(out *logspb.LogRecord, line []byte) {
	out.SeverityNumber, out.SeverityText = logspb.SeverityNumber_SEVERITY_NUMBER_ERROR, "ERROR"
	out.Attributes = append(out.Attributes, attr("yett.malformed", boolean(true)))
	if utf8.Valid(line) {
		out.Body = text(string(line))
		return
	}
	out.Body = &commonpb.AnyValue{Value: &commonpb.AnyValue_BytesValue{BytesValue: line}}
}

// gapItem says that records are missing for good, since retention removed them before they were delivered.
func gapItem(g *plugin.Gap, observed uint64) item {
	body := &commonpb.KeyValueList{Values: []*commonpb.KeyValue{
		attr("type", text("gap")), attr("first_seq", count(g.First)), attr("last_seq", count(g.Last)),
		attr("reason", text(g.Reason)),
	}}
	return item{g.First, &logspb.LogRecord{
		ObservedTimeUnixNano: observed, EventName: "gap",
		SeverityNumber: logspb.SeverityNumber_SEVERITY_NUMBER_ERROR, SeverityText: "ERROR",
		Body: &commonpb.AnyValue{Value: &commonpb.AnyValue_KvlistValue{KvlistValue: body}},
		Attributes: []*commonpb.KeyValue{
			attr("yett.type", text("gap")), attr("yett.first_seq", count(g.First)), attr("yett.last_seq", count(g.Last)),
		},
	}}
}

func attr(key string, v *commonpb.AnyValue) *commonpb.KeyValue {
	return &commonpb.KeyValue{Key: key, Value: v}
}
