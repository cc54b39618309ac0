package prochost

import (
	"fmt"
	"time"
	"unicode/utf8"

	"github.com/yett-dev/yett/core/chain"
	"google.golang.org/grpc/mem"
	"google.golang.org/protobuf/encoding/protowire"
)

// The checks' messages are written and read by hand, field by field: a plugin is asked tens of thousands of times a
// second, and generated code would copy the arguments twice. Tests hold this against the generated code.

// Fields of CheckRequest, Call and CheckResponse in plugin.proto.
const (
	reqID, reqDeadline, reqGeneration, reqCall = 1, 2, 3, 4

	callKeyID, callKeyName, callAgentID, callSessionID, callToolID, callOperation, callCallID = 1, 2, 3, 4, 5, 6, 7
	callArgs, callContext, callDigest, callTime                                               = 8, 9, 10, 11

	resID, resEffect, resCode, resReason, resRule, resMessage, resError = 1, 2, 3, 4, 5, 6, 7
	resTTL, resApprovals, resApprovers, resExpires, resPriority         = 8, 9, 10, 11, 12
)

// maxApprovers bounds a list before it is judged.
const maxApprovers = 100

// request is what is asked about one call.
type request struct {
	id         uint64
	deadline   time.Time
	generation string
	call       *chain.Call
}

// texts are the strings of a call, by field.
func texts(c *chain.Call) [7]string {
	return [7]string{c.KeyID, c.KeyName, c.AgentID, c.SessionID, c.ToolID, c.Operation, c.CallID}
}

func sizeText(n int) int {
	if n == 0 {
		return 0
	}
	return 1 + protowire.SizeBytes(n)
}

// sizeCall is how long the inner message gets. All its field numbers take one byte.
func sizeCall(c *chain.Call) int {
	size := sizeText(len(c.Args.Raw())) + sizeText(len(c.Context.Raw())) + sizeText(len(c.Digest))
	for _, s := range texts(c) {
		size += sizeText(len(s))
	}
	if at := unixNano(c.Now); at != 0 {
		size += 1 + protowire.SizeVarint(uint64(at))
	}
	return size
}

func unixNano(t time.Time) int64 {
	if t.IsZero() {
		return 0
	}
	return t.UnixNano()
}

// size is how long the message gets, at most 32 bytes too much.
func (r *request) size() int {
	return 32 + sizeText(len(r.generation)) + protowire.SizeBytes(sizeCall(r.call))
}

// append encodes the request. Strings that are not UTF-8 would make the plugin refuse the whole stream: check first.
func (r *request) append(b []byte) []byte {
	c := r.call
	b = appendNumber(b, reqID, r.id)
	b = appendNumber(b, reqDeadline, uint64(unixNano(r.deadline)))
	b = appendText(b, reqGeneration, r.generation)
	b = protowire.AppendTag(b, reqCall, protowire.BytesType)
	b = protowire.AppendVarint(b, uint64(sizeCall(c)))
	for i, s := range texts(c) {
		b = appendText(b, protowire.Number(callKeyID+i), s)
	}
	b = appendText(b, callArgs, c.Args.Raw())
	b = appendText(b, callContext, c.Context.Raw())
	b = protowire.AppendTag(b, callDigest, protowire.BytesType)
	b = protowire.AppendBytes(b, c.Digest[:])
	return appendNumber(b, callTime, uint64(unixNano(c.Now)))
}

func appendText(b []byte, field protowire.Number, s string) []byte {
	if s == "" {
		return b
	}
	return protowire.AppendString(protowire.AppendTag(b, field, protowire.BytesType), s)
}

func appendNumber(b []byte, field protowire.Number, n uint64) []byte {
	if n == 0 {
		return b
	}
	return protowire.AppendVarint(protowire.AppendTag(b, field, protowire.VarintType), n)
}

// checkCall refuses what cannot be sent.
func checkCall(c *chain.Call) error {
	for i, s := range texts(c) {
		if !utf8.ValidString(s) {
			return fmt.Errorf("field %d of the call is not UTF-8", callKeyID+i)
		}
	}
	if size := sizeCall(c); size > maxMessage-1024 {
		return fmt.Errorf("the call takes %d bytes, at most %d fit into a message", size, maxMessage-1024)
	}
	return nil
}

// answer is a CheckResponse as it came, not judged yet.
type answer struct {
	id        uint64
	effect    uint64
	code      string
	reason    string
	rule      string
	message   string
	failure   string
	ttl       int64
	approvals uint64
	approvers []string
	expires   int64
	priority  string
}

// decode reads a CheckResponse. What it does not know it skips, as the protocol says. The answer keeps nothing of b.
func (a *answer) decode(b []byte) error {
	*a = answer{}
	for len(b) > 0 {
		field, kind, n := protowire.ConsumeTag(b)
		if n < 0 {
			return protowire.ParseError(n)
		}
		b = b[n:]
		switch kind {
		case protowire.VarintType:
			var v uint64
			if v, n = protowire.ConsumeVarint(b); n >= 0 {
				a.number(field, v)
			}
		case protowire.BytesType:
			var v []byte
			if v, n = protowire.ConsumeBytes(b); n >= 0 {
				if err := a.text(field, v); err != nil {
					return err
				}
			}
		default:
			n = protowire.ConsumeFieldValue(field, kind, b)
		}
		if n < 0 {
			return protowire.ParseError(n)
		}
		b = b[n:]
	}
	return nil
}

func (a *answer) number(field protowire.Number, v uint64) {
	switch field {
	case resID:
		a.id = v
	case resEffect:
		a.effect = v
	case resTTL:
		a.ttl = int64(v)
	case resApprovals:
		a.approvals = v
	case resExpires:
		a.expires = int64(v)
	}
}

func (a *answer) text(field protowire.Number, v []byte) error {
	var to *string
	switch field {
	case resCode:
		to = &a.code
	case resReason:
		to = &a.reason
	case resRule:
		to = &a.rule
	case resMessage:
		to = &a.message
	case resError:
		to = &a.failure
	case resPriority:
		to = &a.priority
	case resApprovers:
		if len(a.approvers) == maxApprovers {
			return fmt.Errorf("more than %d approvers", maxApprovers)
		}
		a.approvers = append(a.approvers, "")
		to = &a.approvers[len(a.approvers)-1]
	default:
		return nil
	}
	if !utf8.Valid(v) {
		return fmt.Errorf("field %d is not UTF-8", field)
	}
	*to = string(v)
	return nil
}

// checkCodec hands requests over as they are and reads answers where they lie.
type checkCodec struct{}

// outgoing is an encoded request in a pooled buffer, which gRPC gives back when it is written.
type outgoing struct {
	id  uint64
	buf *[]byte
}

func (r *request) encode() outgoing {
	buf := mem.DefaultBufferPool().Get(r.size())
	*buf = r.append((*buf)[:0])
	return outgoing{id: r.id, buf: buf}
}

func (checkCodec) Marshal(v any) (mem.BufferSlice, error) {
	m, ok := v.(*outgoing)
	if !ok {
		return nil, errNotRaw
	}
	return mem.BufferSlice{mem.NewBuffer(m.buf, mem.DefaultBufferPool())}, nil
}

func (checkCodec) Unmarshal(data mem.BufferSlice, v any) error {
	a, ok := v.(*answer)
	if !ok {
		return errNotRaw
	}
	if len(data) == 1 {
		return a.decode(data[0].ReadOnlyData())
	}
	return a.decode(data.Materialize())
}

func (checkCodec) Name() string { return "proto" }
