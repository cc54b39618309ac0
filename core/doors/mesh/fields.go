package mesh

import (
	"errors"
	"fmt"
	"unicode/utf8"

	"google.golang.org/grpc/mem"
	"google.golang.org/protobuf/encoding/protowire"
)

// The messages of Envoy and agentgateway are read and written field by field. Their generated packages register the
// whole type tree of xDS, which the program would carry for three calls. Tests hold this against the public packages.

// number is the number of a field.
type number = protowire.Number

// errNotText is about a string that is no UTF-8, which protobuf does not allow.
var errNotText = errors.New("a text is not UTF-8")

// each calls texts for every field with a length, and numbers for every varint; nil passes them over. The other kinds
// are passed over, as protobuf says of fields that nobody knows.
func each(b []byte, texts func(f number, v []byte) error, numbers func(f number, n uint64)) error {
	for len(b) > 0 {
		f, kind, size := protowire.ConsumeTag(b)
		if size < 0 {
			return protowire.ParseError(size)
		}
		b = b[size:]
		switch {
		case kind == protowire.BytesType && texts != nil:
			var v []byte
			if v, size = protowire.ConsumeBytes(b); size >= 0 {
				if err := texts(f, v); err != nil {
					return err
				}
			}
		case kind == protowire.VarintType && numbers != nil:
			var n uint64
			if n, size = protowire.ConsumeVarint(b); size >= 0 {
				numbers(f, n)
			}
		default:
			size = protowire.ConsumeFieldValue(f, kind, b)
		}
		if size < 0 {
			return protowire.ParseError(size)
		}
		b = b[size:]
	}
	return nil
}

// setText sets a string field.
func setText(to *string, v []byte) error {
	if !utf8.Valid(v) {
		return errNotText
	}
	*to = string(v)
	return nil
}

// header is one header of an HTTP message, the name in lower case.
type header struct{ name, value string }

// headers are those of one HTTP message, in order.
type headers []header

// get is the one value of a header. ok is false where there is none; err says that there are several.
func (h headers) get(name string) (value string, ok bool, err error) {
	for i := range h {
		if h[i].name != name {
			continue
		}
		if ok {
			return "", true, fmt.Errorf("the header %s is there more than once", name)
		}
		value, ok = h[i].value, true
	}
	return value, ok, nil
}

// all joins every value of a header, as HTTP does.
func (h headers) all(name string) (value string, ok bool) {
	for i := range h {
		switch {
		case h[i].name != name:
		case ok:
			value += ", " + h[i].value
		default:
			value, ok = h[i].value, true
		}
	}
	return value, ok
}

// maxHeaders bounds the headers of one message before they are looked at.
const maxHeaders = 1000

var errManyHeaders = fmt.Errorf("more than %d headers", maxHeaders)

// pair reads a message of two fields, a name and a value. The value may also be in the field raw, as Envoy sends it.
func (h *headers) pair(b []byte, raw number) error {
	if len(*h) == maxHeaders {
		return errManyHeaders
	}
	var one header
	err := each(b, func(f number, v []byte) error {
		switch f {
		case 1:
			return setText(&one.name, v)
		case 2, raw:
			if len(v) > 0 {
				return setText(&one.value, v)
			}
		}
		return nil
	}, nil)
	one.name = lower(one.name)
	*h = append(*h, one)
	return err
}

// headerMap reads Envoy's HeaderMap: a list of HeaderValue{key, value, raw_value}.
func (h *headers) headerMap(b []byte) error {
	return each(b, func(f number, v []byte) error {
		if f == 1 {
			return h.pair(v, 3)
		}
		return nil
	}, nil)
}

// lower is s with its ASCII letters in lower case.
func lower(s string) string {
	b := []byte(s)
	for i, c := range b {
		if c >= 'A' && c <= 'Z' {
			b[i] = c + 'a' - 'A'
		}
	}
	return string(b)
}

// putBytes writes a field with a length, an empty one too.
func putBytes[T ~string | ~[]byte](b []byte, f number, v T) []byte {
	b = protowire.AppendTag(b, f, protowire.BytesType)
	b = protowire.AppendVarint(b, uint64(len(v)))
	return append(b, v...)
}

// putNumber writes a varint.
func putNumber(b []byte, f number, n uint64) []byte {
	return protowire.AppendVarint(protowire.AppendTag(b, f, protowire.VarintType), n)
}

// putHeader writes a HeaderValueOption{header{key, raw_value}, append_action: overwrite or add}.
func putHeader(b []byte, f number, h header) []byte {
	const overwrite = 2
	value := putBytes(putBytes(nil, 1, h.name), 3, h.value)
	return putBytes(b, f, putNumber(putBytes(nil, 1, value), 3, overwrite))
}

// frame is the bytes of one message.
type frame struct{ b []byte }

var errNotFrame = errors.New("the codec carries frames alone")

// codec hands messages over as bytes.
type codec struct{}

// Marshal implements encoding.CodecV2.
func (codec) Marshal(v any) (mem.BufferSlice, error) {
	f, ok := v.(*frame)
	if !ok {
		return nil, errNotFrame
	}
	return mem.BufferSlice{mem.SliceBuffer(f.b)}, nil
}

// Unmarshal implements encoding.CodecV2.
func (codec) Unmarshal(data mem.BufferSlice, v any) error {
	f, ok := v.(*frame)
	if !ok {
		return errNotFrame
	}
	f.b = data.Materialize()
	return nil
}

// Name implements encoding.CodecV2.
func (codec) Name() string { return "proto" }
