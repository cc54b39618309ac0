package logqueue

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"
)

// handler gives records to a queue. What was bound to a logger (a plugin's name, say) is not the record's: in a line of
// text it stands before the message, so that no message can pass for another's.
type handler struct {
	q      *Queue
	bound  []slog.Attr
	groups []string // of the attributes to come
}

// Enabled implements slog.Handler.
func (h *handler) Enabled(_ context.Context, level slog.Level) bool {
	return level >= h.q.level.Level()
}

// WithAttrs implements slog.Handler.
func (h *handler) WithAttrs(attrs []slog.Attr) slog.Handler {
	next := *h
	next.bound = append(next.bound[:len(next.bound):len(next.bound)], h.within(attrs)...)
	return &next
}

// WithGroup implements slog.Handler.
func (h *handler) WithGroup(name string) slog.Handler {
	if name == "" {
		return h
	}
	next := *h
	next.groups = append(next.groups[:len(next.groups):len(next.groups)], name)
	return &next
}

// within puts attributes, without their secrets, into the groups that were begun.
func (h *handler) within(attrs []slog.Attr) []slog.Attr {
	out := make([]slog.Attr, 0, len(attrs))
	for _, a := range attrs {
		if a = h.q.clean(a); a.Key != "" || a.Value.Kind() == slog.KindGroup {
			out = append(out, a)
		}
	}
	if len(out) == 0 {
		return nil
	}
	for i := len(h.groups) - 1; i >= 0; i-- {
		out = []slog.Attr{{Key: h.groups[i], Value: slog.GroupValue(out...)}}
	}
	return out
}

// Handle implements slog.Handler.
func (h *handler) Handle(_ context.Context, r slog.Record) error {
	own := make([]slog.Attr, 0, r.NumAttrs())
	r.Attrs(func(a slog.Attr) bool {
		own = append(own, a)
		return true
	})
	h.q.add(h.q.format(r.Level, h.q.redact("", r.Message), h.bound, h.within(own)))
	return nil
}

// clean is an attribute without secrets, of a kind that a line can show.
func (q *Queue) clean(a slog.Attr) slog.Attr {
	v := a.Value.Resolve()
	switch v.Kind() {
	case slog.KindString:
		v = slog.StringValue(q.redact(a.Key, v.String()))
	case slog.KindGroup:
		inner := make([]slog.Attr, 0, len(v.Group()))
		for _, one := range v.Group() {
			inner = append(inner, q.clean(one))
		}
		v = slog.GroupValue(inner...)
	case slog.KindAny:
		v = slog.AnyValue(q.cleanAny(a.Key, v.Any()))
	}
	return slog.Attr{Key: a.Key, Value: v}
}

// cleanAny is a value of JSON, or the text of any other one, without secrets.
func (q *Queue) cleanAny(name string, v any) any {
	switch v := v.(type) {
	case nil, bool, json.Number:
		return v
	case map[string]any:
		out := make(map[string]any, len(v))
		for k, one := range v {
			out[q.redact("", k)] = q.cleanAny(k, one)
		}
		return out
	case []any:
		out := make([]any, len(v))
		for i, one := range v {
			out[i] = q.cleanAny(name, one)
		}
		return out
	case error:
		return q.redact(name, v.Error())
	}
	return q.redact(name, fmt.Sprint(v))
}

// format makes a line. Its texts have no secrets any more.
func (q *Queue) format(level slog.Level, message string, bound, own []slog.Attr) string {
	now := q.now().UTC()
	if q.json.Load() {
		return jsonLine(now, level, message, bound, own)
	}
	var b strings.Builder
	b.WriteString(now.Format(time.RFC3339) + " " + level.String())
	for _, a := range bound {
		appendText(&b, "", a)
	}
	if len(bound) > 0 {
		b.WriteByte(':')
	}
	b.WriteString(" " + shown(message))
	for _, a := range own {
		appendText(&b, "", a)
	}
	b.WriteByte('\n')
	return b.String()
}

// appendText writes an attribute as name=value, those of a group as group.name=value.
func appendText(b *strings.Builder, group string, a slog.Attr) {
	name := group + a.Key
	if a.Value.Kind() == slog.KindGroup {
		if name != "" {
			name += "."
		}
		for _, one := range a.Value.Group() {
			appendText(b, name, one)
		}
		return
	}
	text := ""
	switch v := a.Value; v.Kind() {
	case slog.KindTime:
		text = v.Time().UTC().Format(time.RFC3339Nano)
	case slog.KindAny:
		if s, ok := v.Any().(string); ok {
			text = s
			break
		}
		encoded, err := json.Marshal(v.Any()) // nothing but what JSON has is in it: see cleanAny
		if err != nil {
			encoded = []byte(err.Error())
		}
		text = string(encoded)
	default:
		text = v.String()
	}
	b.WriteString(" " + plain(name) + "=" + plain(text))
}

// plain is a text as it is, or quoted where that could be mistaken.
func plain(text string) string {
	if text == "" || strings.ContainsFunc(text, func(r rune) bool {
		return r == ' ' || r == '"' || r == '=' || !unicode.IsPrint(r) || r == utf8.RuneError
	}) {
		return strconv.Quote(text)
	}
	return text
}

// jsonLine is a line as a JSON object. What does not print is escaped: it must not steer a terminal.
func jsonLine(now time.Time, level slog.Level, message string, bound, own []slog.Attr) string {
	var b bytes.Buffer
	r := slog.NewRecord(now, level, message, 0)
	r.AddAttrs(bound...)
	r.AddAttrs(own...)
	// a buffer takes everything, and the level was looked at before
	_ = slog.NewJSONHandler(&b, &slog.HandlerOptions{Level: level}).Handle(context.Background(), r)
	text := strings.TrimSuffix(b.String(), "\n")
	var out strings.Builder
	for _, r := range text {
		switch {
		case unicode.IsPrint(r):
			out.WriteRune(r)
		case r > 0xffff:
			hi, lo := (r-0x10000)>>10+0xd800, (r-0x10000)&0x3ff+0xdc00
			fmt.Fprintf(&out, `\u%04x\u%04x`, hi, lo)
		default:
			fmt.Fprintf(&out, `\u%04x`, r)
		}
	}
	out.WriteByte('\n')
	return out.String()
}
