package trace

import (
	"time"

	"google.golang.org/protobuf/encoding/protowire"
)

// request is an ExportTraceServiceRequest of OTLP 1.x with these spans. It is written by hand: the messages' own
// package would bring a megabyte of descriptors into the program.
func request(dst []byte, version string, spans []span) []byte {
	resource := message(nil, 1, func(b []byte) []byte { // Resource
		b = attribute(b, 1, attr{"service.name", "yett"})
		return attribute(b, 1, attr{"service.version", version})
	})
	scope := message(resource, 2, func(b []byte) []byte { // ScopeSpans
		b = message(b, 1, func(b []byte) []byte { return text(text(b, 1, "yett"), 2, version) }) // InstrumentationScope
		for i := range spans {
			b = message(b, 2, spans[i].append)
		}
		return b
	})
	return message(dst, 1, func(b []byte) []byte { return append(b, scope...) }) // ResourceSpans
}

// append writes a Span.
func (s *span) append(b []byte) []byte {
	b = protowire.AppendBytes(protowire.AppendTag(b, 1, protowire.BytesType), s.trace[:])
	b = protowire.AppendBytes(protowire.AppendTag(b, 2, protowire.BytesType), s.id[:])
	if s.parent != [8]byte{} {
		b = protowire.AppendBytes(protowire.AppendTag(b, 4, protowire.BytesType), s.parent[:])
	}
	b = text(b, 5, s.name)
	b = protowire.AppendVarint(protowire.AppendTag(b, 6, protowire.VarintType), uint64(s.kind))
	b = at(at(b, 7, s.begin), 8, s.end)
	for _, a := range s.attrs {
		b = attribute(b, 9, a)
	}
	if s.failed { // Status {code: ERROR}; no message: it could quote what it is about
		b = message(b, 15, func(b []byte) []byte {
			return protowire.AppendVarint(protowire.AppendTag(b, 3, protowire.VarintType), 2)
		})
	}
	return b
}

func at(b []byte, field protowire.Number, t time.Time) []byte {
	return protowire.AppendFixed64(protowire.AppendTag(b, field, protowire.Fixed64Type), uint64(t.UnixNano()))
}

func text(b []byte, field protowire.Number, s string) []byte {
	return protowire.AppendString(protowire.AppendTag(b, field, protowire.BytesType), s)
}

// attribute writes a KeyValue.
func attribute(b []byte, field protowire.Number, a attr) []byte {
	return message(b, field, func(b []byte) []byte {
		return message(text(b, 1, a.key), 2, func(b []byte) []byte { return text(b, 1, a.value) })
	})
}

func message(b []byte, field protowire.Number, body func([]byte) []byte) []byte {
	return protowire.AppendBytes(protowire.AppendTag(b, field, protowire.BytesType), body(nil))
}
