package feed

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"strconv"
	"strings"
	"time"

	"github.com/yett-dev/yett/sdk/exact"
)

// The members of records that hold what an agent has sent or a tool has answered, and those that hold texts of people,
// rules and programs. One that is in both is a text of the agent's.
var (
	contents = map[string]bool{"args": true, "context": true, "modified_args": true, "params": true, "result": true,
		"agent_note": true}
	texts = map[string]bool{"reason": true, "message": true, "error": true, "note": true, "who_note": true, "why": true,
		"detail": true, "agent_note": true}
)

// The limits of masking.
const (
	maskedKept = 4096 // texts that are remembered with what masking made of them
	maskedText = 256  // bytes of a text that is remembered
	maskedFor  = time.Minute
	quickRoom  = 32 // bytes by which masking may make a record longer without a second allocation
	maxSpare   = 1 << 10
)

// maxDelivered is the largest record that is delivered as it is: plugins take messages of 4 MiB. An agent must not be
// able to stop every subscriber with one large call, so a larger record comes without what the agent has sent, and says
// so.
const maxDelivered = 3 << 20

// MaskError says why a text could not be masked, in words that a subscriber may read.
type MaskError struct {
	Cause   string // its class
	Scanner string // the step whose scanner did not run to its end, "" if none is to blame
	Lasts   bool   // it would be so again
	Err     error
}

func (e *MaskError) Error() string { return e.Err.Error() }
func (e *MaskError) Unwrap() error { return e.Err }

// causeMalformed: what masking made of a JSON value was none.
const causeMalformed = "malformed"

func maskError(err error) *MaskError {
	var e *MaskError
	if !errors.As(err, &e) {
		e = &MaskError{Cause: "error", Err: err}
	}
	return e
}

// appendWithheld appends what stands for a value that could not be masked.
func appendWithheld(dst []byte, why *MaskError) []byte {
	dst = exact.AppendString(append(dst, `{"withheld":"mask_failed","cause":`...), why.Cause)
	if why.Scanner != "" {
		dst = exact.AppendString(append(dst, `,"scanner":`...), why.Scanner)
	}
	return append(dst, '}')
}

const unreadable = `,"withheld":"unreadable"}`

// payload makes what is delivered of records. One goroutine's.
type payload struct {
	kind   string
	bare   bool // without contents, whatever the kind
	mask   func(ctx context.Context, t Text) (string, error)
	policy func() string // what mask goes by; nil: always the same
	doc    exact.Doc
	failed *MaskError // the first text of the last record that could not be masked; nil: all could

	seen   map[Text]string // what mask made of texts
	seenBy string          // under this policy
	seenTo time.Time       // and not longer than this: a scanner that is a process may learn by itself
}

// without reports whether contents are left out.
func (p *payload) without() bool { return p.bare || p.kind == PayloadDigest }

// of is the record as it is delivered. All bytes but those of the members in question stay as they are.
func (p *payload) of(ctx context.Context, seq uint64, record []byte) []byte {
	p.failed = nil
	if !p.without() && len(record) > maxDelivered {
		return fitted(p.large(ctx, seq, record))
	}
	out := p.made(ctx, seq, record)
	if len(out) > maxDelivered { // masking may make it longer
		return fitted(p.large(ctx, seq, record))
	}
	return fitted(out)
}

// fitted gives back the room of what was left out: a batch counts what it delivers, and must not hold much more.
func fitted(out []byte) []byte {
	if cap(out) > 2*len(out)+maxSpare {
		return bytes.Clone(out)
	}
	return out
}

// large is what is delivered of a record that does not fit. What masking takes out of its texts stays out.
func (p *payload) large(ctx context.Context, seq uint64, record []byte) []byte {
	rest := payload{kind: p.kind, bare: true, mask: p.mask} // not p itself, which would keep the room for it
	out := rest.made(ctx, seq, record)
	p.failed = cmp.Or(p.failed, rest.failed)
	switch {
	case bytes.HasSuffix(out, []byte(unreadable)):
		return out
	case len(out) <= len("{}") || len(out) > maxDelivered:
		return append(strconv.AppendUint([]byte(`{"seq":`), seq, 10), `,"withheld":"too_large"}`...)
	}
	return append(out[:len(out)-1], `,"withheld":"too_large"}`...)
}

func (p *payload) made(ctx context.Context, seq uint64, record []byte) []byte {
	if p.kind == PayloadFull && !p.bare {
		return append([]byte(nil), record...)
	}
	if out, ok := p.quick(ctx, make([]byte, 0, len(record)+quickRoom), record); ok {
		return out
	}
	return p.parsed(ctx, seq, record)
}

// parsed is made for any record there may be.
func (p *payload) parsed(ctx context.Context, seq uint64, record []byte) []byte {
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
		if content && p.without() {
			continue
		}
		if !first {
			dst = append(dst, ',')
		}
		first = false
		dst = append(exact.AppendString(dst, name), ':')
		switch {
		case p.kind != PayloadRedacted:
			dst = append(dst, v.Raw()...)
		case content && !texts[name]:
			dst = p.content(ctx, dst, v, t)
		case texts[name] && v.Kind() == exact.String && v.Str() != "":
			t.Text = v.Str()
			dst = masked(ctx, p, dst, v.Raw(), t)
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
	return p.contentMasked(ctx, dst, v.Raw(), t)
}

func (p *payload) contentMasked(ctx context.Context, dst []byte, raw string, t Text) []byte {
	t.Text, t.JSON = raw, true
	out, err := p.mask(ctx, t)
	if err != nil {
		return appendWithheld(dst, p.fail(maskError(err)))
	}
	var doc exact.Doc
	if err := doc.Parse(out, recordLimits); err != nil {
		return appendWithheld(dst, p.fail(&MaskError{Cause: causeMalformed, Lasts: true, Err: err}))
	}
	return append(dst, doc.Root().Raw()...)
}

// masked appends the text t, which stands in the record as raw, masked, or that it is withheld.
func masked[R string | []byte](ctx context.Context, p *payload, dst []byte, raw R, t Text) []byte {
	p.forget()
	out, known := p.seen[t]
	if !known {
		var err error
		if out, err = p.mask(ctx, t); err != nil {
			return exact.AppendString(dst, "[withheld: "+p.fail(maskError(err)).Cause+"]")
		}
		p.remember(t, out)
	}
	if out == t.Text {
		return append(dst, raw...)
	}
	return exact.AppendString(dst, out)
}

func (p *payload) fail(why *MaskError) *MaskError {
	if p.failed == nil || p.failed.Lasts && !why.Lasts { // the other may be masked next time
		p.failed = why
	}
	return why
}

// forget drops what is remembered of texts when the scanners may find something else in them by now.
func (p *payload) forget() {
	policy := p.seenBy
	if p.policy != nil {
		policy = p.policy()
	}
	if now := time.Now(); policy != p.seenBy || !now.Before(p.seenTo) {
		p.seen, p.seenBy, p.seenTo = nil, policy, now.Add(maskedFor)
	}
}

func (p *payload) remember(t Text, out string) {
	if len(t.Text) > maskedText {
		return
	}
	if p.seen == nil || len(p.seen) >= maskedKept {
		p.seen = map[Text]string{}
	}
	// Copies: these are parts of a whole record, which would be kept with them.
	t.Text, t.ToolID, t.AgentID = strings.Clone(t.Text), strings.Clone(t.ToolID), strings.Clone(t.AgentID)
	p.seen[t] = strings.Clone(out)
}
