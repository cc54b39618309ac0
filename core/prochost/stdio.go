package prochost

import (
	"errors"
	"io"

	"github.com/yett-dev/yett/core/supervise"
	"google.golang.org/grpc"
	"google.golang.org/grpc/mem"
	"google.golang.org/protobuf/encoding/protowire"
)

// stdioMethod is where go-plugin's Serve sends what its program writes to os.Stdout and os.Stderr, which it replaces.
// Somebody has to read it, else the program stops at its next line.
const stdioMethod = "/plugin.GRPCStdio/StreamStdio"

// readStdio passes those lines on to the log until the session ends. A plugin without that service has none.
func (s *Session) readStdio() {
	desc := &grpc.StreamDesc{StreamName: "StreamStdio", ServerStreams: true}
	stream, err := s.conn.NewStream(s.ctx, desc, stdioMethod, grpc.ForceCodecV2(rawCodec{}))
	if err != nil {
		return
	}
	if err := stream.SendMsg(&rawMessage{}); err != nil {
		return
	}
	if err := stream.CloseSend(); err != nil {
		return
	}
	supervise.Follow(&stdioReader{stream: stream}, s.process.Done(), func(line string) {
		s.o.Log(s.spec.Name, LevelStdout, line)
	})
}

// stdioReader reads the data of StdioData messages {channel = 1, data = 2}.
type stdioReader struct {
	stream grpc.ClientStream
	rest   []byte
}

func (r *stdioReader) Read(p []byte) (int, error) {
	for len(r.rest) == 0 {
		var m rawMessage
		if err := r.stream.RecvMsg(&m); err != nil {
			return 0, io.EOF
		}
		data, err := stdioData(m.data)
		if err != nil {
			return 0, err
		}
		r.rest = data
	}
	n := copy(p, r.rest)
	r.rest = r.rest[n:]
	return n, nil
}

func stdioData(b []byte) (data []byte, err error) {
	for len(b) > 0 {
		number, kind, n := protowire.ConsumeTag(b)
		if n < 0 {
			return nil, protowire.ParseError(n)
		}
		b = b[n:]
		if number == 2 && kind == protowire.BytesType {
			data, n = protowire.ConsumeBytes(b)
		} else {
			n = protowire.ConsumeFieldValue(number, kind, b)
		}
		if n < 0 {
			return nil, protowire.ParseError(n)
		}
		b = b[n:]
	}
	return data, nil
}

// rawMessage is a message as it is on the wire.
type rawMessage struct{ data []byte }

// rawCodec leaves encoding to its caller.
type rawCodec struct{}

func (rawCodec) Marshal(v any) (mem.BufferSlice, error) {
	m, ok := v.(*rawMessage)
	if !ok {
		return nil, errNotRaw
	}
	return mem.BufferSlice{mem.SliceBuffer(m.data)}, nil
}

func (rawCodec) Unmarshal(data mem.BufferSlice, v any) error {
	m, ok := v.(*rawMessage)
	if !ok {
		return errNotRaw
	}
	m.data = data.Materialize()
	return nil
}

func (rawCodec) Name() string { return "proto" }

var errNotRaw = errors.New("no raw message")
