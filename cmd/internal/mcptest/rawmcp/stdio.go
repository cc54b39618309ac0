package rawmcp

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"io"
	"os"
	"sync"
)

// ServeStdio serves one client on a pair of pipes until the input ends. Requests are answered side by side.
func (s *Server) ServeStdio(ctx context.Context, in io.Reader, out io.Writer) error {
	ctx, cancel := context.WithCancel(ctx)
	var wg sync.WaitGroup
	defer wg.Wait()
	defer cancel()
	sess := newSession("stdio")
	s.mu.Lock()
	s.sessions[sess.id] = sess
	s.mu.Unlock()
	sink := &stdioSink{out: out}
	wg.Go(func() { follow(ctx, sess, 0, func(_ int, event []byte) error { return sink.send(event) }) })
	lines := bufio.NewReaderSize(in, 1<<16)
	for {
		line, err := lines.ReadBytes('\n')
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		line = line[:len(line)-1]
		s.record(Record{Via: "stdio", Body: line})
		var m message
		if json.Unmarshal(line, &m) != nil {
			if err := sink.send((&rpcError{code: -32700, message: "cannot parse the line"}).answer([]byte("null"))); err != nil {
				return err
			}
			continue
		}
		if !m.request() {
			s.notified(sess, &m)
			continue
		}
		c := &call{ctx: ctx, s: s, sess: sess, modern: m.Params.Meta.Version == Modern, id: m.ID, method: m.Method,
			p: m.Params, out: sink, request: line}
		if c.modern && !s.speaks(Modern) {
			if err := sink.send(unsupported(s.opt.Versions, Modern).answer(m.ID)); err != nil {
				return err
			}
			continue
		}
		wg.Go(func() {
			if c.serve() != nil {
				s.record(Record{Via: "stdio", Event: Ended, Body: line})
			}
		})
	}
}

// stdioSink writes lines. Answers of several requests share it.
type stdioSink struct {
	mu  sync.Mutex
	out io.Writer
}

func (o *stdioSink) send(message []byte) error {
	o.mu.Lock()
	defer o.mu.Unlock()
	_, err := o.out.Write(append(message[:len(message):len(message)], '\n'))
	return err
}

// raw keeps other answers out until it is closed.
func (o *stdioSink) raw() (io.WriteCloser, error) {
	o.mu.Lock()
	return &rawStdio{o}, nil
}

type rawStdio struct{ *stdioSink }

func (o *rawStdio) Write(p []byte) (int, error) { return o.out.Write(p) }

func (o *rawStdio) Close() error {
	defer o.mu.Unlock()
	_, err := o.out.Write([]byte("\n"))
	return err
}

// die ends the process in the middle of a line.
func (o *stdioSink) die() {
	o.mu.Lock()
	_, _ = io.WriteString(o.out, `{"jsonrpc":"2.0","id":`)
	os.Exit(3)
}
