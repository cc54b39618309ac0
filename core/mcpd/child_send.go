package mcpd

import (
	"context"
	"io"
	"time"

	"github.com/yett-dev/yett/sdk/exact"
	"github.com/yett-dev/yett/sdk/wire"
)

// send writes one message. A process that does not read holds nobody up for ever.
func (c *child) send(ctx context.Context, body string) error {
	if err := ctx.Err(); err != nil { // what was given up while it was decided is never sent
		return err
	}
	select {
	case <-c.writing:
	case <-ctx.Done():
		return ctx.Err()
	case <-c.gone:
		return errNoSession
	}
	done := c.write(body)
	select {
	case err := <-done:
		if err != nil {
			c.kill() // a part of a line may stand in the pipe, before the next one
		}
		return err
	case <-ctx.Done(): // what is half written would reach the process later: a kill may have been answered by then
		c.l.logs.Log("the command is ended: it has not read a message in time")
		c.kill()
		return ctx.Err()
	case <-c.gone:
	}
	select { // a process that has ended may have read it, and have said something before
	case err := <-done:
		if err == nil {
			return nil
		}
	case <-time.After(slowestEnd):
	}
	return errNoSession
}

// slowestEnd is how long a write may take to fail once the process at the other end is ended.
const slowestEnd = time.Second

// write writes on, whoever waits for it. The caller has the token, which is given back after it.
func (c *child) write(body string) <-chan error {
	done := make(chan error, 1)
	if !c.l.spawn(func() {
		_, err := io.WriteString(c.proc.In(), oneLine(body))
		c.writing <- struct{}{}
		done <- err
	}) {
		done <- errDown
	}
	return done
}

// notify passes on what needs no answer. A client's word that it gives a request up names the id that the process
// knows: with the client's own, another client's request would end.
func (c *child) notify(ctx context.Context, o *outgoing) error {
	id := o.msg.params.Get("requestId")
	if o.msg.method != "notifications/cancelled" || !id.Exists() {
		return c.send(ctx, o.body)
	}
	var found *asking
	c.mu.Lock()
	for _, a := range c.order {
		is := a.id.original == "" && a.id.key == idOfAny(id)
		if a.id.original != "" {
			is = sameText(a.id.original, id, c.l.g.lim)
		}
		switch {
		case !is:
		case found != nil: // two clients use the same id, and nobody can tell them apart
			c.mu.Unlock()
			return nil
		default:
			found = a
		}
	}
	c.mu.Unlock()
	if found == nil {
		return nil // it has its answer
	}
	body := o.body
	if found.id.original != "" {
		body = apply(body, []edit{replace(id, found.id.key[1:])})
	}
	err := c.send(ctx, body)
	found.end(errCancelled) // no answer comes any more
	return err
}

// errCancelled answers a request that its client has given up.
var errCancelled = &fault{code: codeInternal, msg: "the client has cancelled this request"}

// sameText reports whether an id as text is the same value as another.
func sameText(text string, id exact.Value, lim exact.Limits) bool {
	v, f := reparse(text, lim)
	return f == nil && sameID(v, id)
}

// cancel tells the process that nobody waits for an answer any more. It does not wait for a process that does not read.
func (c *child) cancel(key string) {
	id := key[1:]
	if key[0] == 's' {
		id = string(exact.AppendString(nil, key[1:]))
	}
	o := wire.Object(nil)
	o.Str("jsonrpc", "2.0")
	o.Str("method", "notifications/cancelled")
	o.Object("params", func(w *wire.Writer) {
		w.Raw("requestId", []byte(id))
		w.Str("reason", "the client has gone")
	})
	body := string(o.Close())
	c.l.spawn(func() {
		ctx, end := context.WithTimeout(context.Background(), slowestReader)
		defer end()
		select {
		case <-c.writing:
			c.write(body)
		case <-ctx.Done():
		case <-c.gone:
		}
	})
}
