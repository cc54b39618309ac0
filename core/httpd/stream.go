package httpd

import (
	"bufio"
	"context"
	"errors"
	"io"
	"time"

	"github.com/valyala/fasthttp"

	"github.com/yett-dev/yett/core/ops"
	"github.com/yett-dev/yett/sdk"
)

// unread is how long a client may leave what it was sent unread before its connection is cut.
const unread = 30 * time.Second

// follow opens a subscription and sends what it brings, as server-sent events, until it ends or the client goes away.
// Nothing of ctx is kept: the writer runs after the handler has returned.
func (s *Server) follow(ctx *fasthttp.RequestCtx, op *ops.Op, r *ops.Request) error {
	if !ctx.Request.Header.IsHTTP11() {
		return sdk.Errf(sdk.CodeBadRequest, "a stream needs HTTP/1.1")
	}
	st, err := s.set.Service.Open(op, r)
	if err != nil {
		return err
	}
	base := s.base
	cancel := func() {}
	if sc, ok := strictConnOf(ctx.Conn()); ok {
		sc.streaming.Store(true)
		base, cancel = sc.whileThere(base)
	}
	h := &ctx.Response.Header
	h.SetContentType("text/event-stream")
	h.Set("Cache-Control", "no-store")
	h.Set("X-Accel-Buffering", "no")
	ctx.SetConnectionClose() // whoever ends a stream ends the connection: nothing else was asked on it
	ctx.SetBodyStreamWriter(func(w *bufio.Writer) {
		defer cancel()
		pour(base, st, w)
	})
	return nil
}

// pour writes what a stream brings. The connection's write deadline bounds each write, and closing it ends the pipe
// that w writes to, so this never waits for a client that is gone or does not read.
func pour(ctx context.Context, st ops.Stream, w *bufio.Writer) {
	defer st.Close()
	if !flush(w, []byte(": open\n\n")) { // the client learns at once that it is connected
		return
	}
	for {
		lines, err := st.Next(ctx)
		if len(lines) > 0 && !flush(w, lines) {
			return
		}
		if err != nil {
			if !errors.Is(err, io.EOF) {
				flush(w, st.Closing())
			}
			return
		}
	}
}

// flush reports whether the client could still be reached.
func flush(w *bufio.Writer, lines []byte) bool {
	_, err := w.Write(lines)
	return err == nil && w.Flush() == nil
}
