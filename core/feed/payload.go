package feed

import (
	"bytes"
	"context"
	"strconv"

	"github.com/yett-dev/yett/sdk/exact"
)

// The members of records that hold what an agent has sent or a tool has answered, and those that hold texts of people,
// rules and programs.
var (
	contents = map[string]bool{"args": true, "context": true, "modified_args": true, "params": true, "result": true}
	texts    = map[string]bool{"reason": true, "message": true, "error": true, "note": true, "who_note": true, "why": true, "detail": true}
)

// The limits of masking.
const (
	maskedKept = 4096 // texts that are remembered with what masking made of them
	maskedText = 256  // bytes of a text that is remembered
)

// maxDelivered is the largest record that is delivered as it is: plugins take messages of 4 MiB. An agent must not be able to
// stop every subscriber with one large call, so a larger record comes without what the agent has sent, and says so.
const maxDelivered = 3 << 20

// withheld stands for what could not be masked.
const withheld = `{"withheld":"mask_failed"}`

const unreadable = `,"withheld":"unreadable"}`

// payload makes what is delivered of records. One goroutine's.
type payload struct {
	kind string
	mask func(ctx context.Context, t Text) (string, error)
	doc  exact.Doc
	seen map[Text]string
}

// of is the record as it is delivered. All bytes but those of the members in question stay as they are.
func (p *payload) of(ctx context.Context, seq uint64, record []byte) []byte {
	if p.kind != PayloadDigest && len(record) > maxDelivered {
		return large(ctx, seq, record)
	}
	out := p.made(ctx, seq, record)
	if len(out) > maxDelivered { // masking may make it longer
		return large(ctx, seq, record)
	}
	return out
}

// large is what is delivered of a record that does not fit.
func large(ctx context.Context, seq uint64, record []byte) []byte {
	rest := payload{kind: PayloadDigest}
	out := rest.made(ctx, seq, record)
	switch {
	case bytes.HasSuffix(out, []byte(unreadable)):
		return out
	case len(out) <= len("{}") || len(out) > maxDelivered:
		return append(strconv.AppendUint([]byte(`{"seq":`), seq, 10), `,"withheld":"too_large"}`...)
	}
	return append(out[:len(out)-1], `,"withheld":"too_large"}`...)
}

func (p *payload) made(ctx context.Context, seq uint64, record []byte) []byte {
	if p.kind == PayloadFull {
		return append([]byte(nil), record...)
	}
	if p.doc.Parse(string(record), recordLimits) != nil || p.doc.Root().Kind() != exact.Object {
		return append(strconv.AppendUint([]byte(`{"seq":`), seq, 10), unreadable...)
	}
	root := p.doc.Root()
	t := Text{ToolID: root.Get("tool_id").Str(), AgentID: root.Get("agent_id").Str()}
	return p.object(ctx, make([]byte, 0, len(record)), root, t, true)
}

// object appends an object; top says that it is the record itself.
func (p *payload) object(ctx context.Context, dst []byte, o exact.Value, t Text, top bool) []byte {
	dst = append(dst, '{')
	first := true
	for name, v := range o.Members() {
		content := top && contents[name]
		if content && p.kind == PayloadDigest {
			continue
		}
		if !first {
			dst = append(dst, ',')
		}
		first = false
		dst = append(exact.AppendString(dst, name), ':')
		switch {
		case p.kind == PayloadDigest:
			dst = append(dst, v.Raw()...)
		case content:
			dst = p.content(ctx, dst, v, t)
		case texts[name] && v.Kind() == exact.String && v.Str() != "":
			dst = p.text(ctx, dst, v, t)
		default:
			dst = p.value(ctx, dst, v, t)
		}
	}
	return append(dst, '}')
}

func (p *payload) value(ctx context.Context, dst []byte, v exact.Value, t Text) []byte {
	switch v.Kind() {
	case exact.Object:
		return p.object(ctx, dst, v, t, false)
	case exact.Array:
		dst = append(dst, '[')
		first := true
		for e := range v.Elements() {
			if !first {
				dst = append(dst, ',')
			}
			first = false
			dst = p.value(ctx, dst, e, t)
		}
		return append(dst, ']')
	}
	return append(dst, v.Raw()...)
}

// content appends the masked JSON value, or that it is withheld.
func (p *payload) content(ctx context.Context, dst []byte, v exact.Value, t Text) []byte {
	if v.Len() == 0 && (v.Kind() == exact.Object || v.Kind() == exact.Array) {
		return append(dst, v.Raw()...)
	}
	t.Text, t.JSON = v.Raw(), true
	out, err := p.mask(ctx, t)
	var doc exact.Doc
	if err != nil || doc.Parse(out, recordLimits) != nil {
		return append(dst, withheld...)
	}
	return append(dst, doc.Root().Raw()...)
}

// text appends the masked text, or that it is withheld.
func (p *payload) text(ctx context.Context, dst []byte, v exact.Value, t Text) []byte {
	t.Text = v.Str()
	out, known := p.seen[t]
	if !known {
		var err error
		if out, err = p.mask(ctx, t); err != nil {
			return append(dst, `"[withheld]"`...)
		}
		p.remember(t, out)
	}
	if out == t.Text {
		return append(dst, v.Raw()...)
	}
	return exact.AppendString(dst, out)
}

func (p *payload) remember(t Text, out string) {
	if len(t.Text) > maskedText {
		return
	}
	if p.seen == nil || len(p.seen) >= maskedKept {
		p.seen = map[Text]string{}
	}
	p.seen[t] = out
}
