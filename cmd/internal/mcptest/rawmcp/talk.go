package rawmcp

import (
	"encoding/json"
	"errors"
	"fmt"
	"time"
)

// listener is one subscription of the newer era.
type listener struct {
	c    *call
	news chan []byte
}

// listen acknowledges a subscription and serves it until its client closes it.
func (c *call) listen() (string, error) {
	l := &listener{c: c, news: make(chan []byte, 16)}
	c.s.mu.Lock()
	c.s.listens[l] = true
	c.s.mu.Unlock()
	defer func() {
		c.s.mu.Lock()
		delete(c.s.listens, l)
		c.s.mu.Unlock()
	}()
	if err := c.out.send(fmt.Appendf(nil, `{"jsonrpc":"2.0","method":"notifications/subscriptions/acknowledged","params":`+
		`{"_meta":{"io.modelcontextprotocol/subscriptionId":%s},"notifications":{"toolsListChanged":true}}}`, c.id)); err != nil {
		return "", err
	}
	for {
		select {
		case news := <-l.news:
			if err := c.out.send(news); err != nil {
				return "", err
			}
		case <-c.ctx.Done():
			return "", errAnswered
		}
	}
}

// change offers one tool more or less, and says so to all sessions and subscriptions.
func (c *call) change() (string, error) {
	c.s.mu.Lock()
	defer c.s.mu.Unlock()
	c.s.extra = !c.s.extra
	const method = `{"jsonrpc":"2.0","method":"notifications/tools/list_changed"`
	for l := range c.s.listens {
		l.news <- fmt.Appendf(nil, `%s,"params":{"_meta":{"io.modelcontextprotocol/subscriptionId":%s}}}`, method, l.c.id)
	}
	if !c.modern {
		for _, sess := range c.s.sessions {
			sess.mu.Lock()
			sess.events = append(sess.events, []byte(method+`}`))
			close(sess.more)
			sess.more = make(chan struct{})
			sess.mu.Unlock()
		}
	}
	return text("changed"), nil
}

// patience is how long the server waits for an answer of its client.
const patience = 20 * time.Second

var errNoAnswer = errors.New("the client did not answer")

// ask sends a request of the server on the call's stream and waits for the answer: the older era's way.
func (c *call) ask(method, params string) (string, error) {
	id := fmt.Sprintf(`"raw-%d"`, c.s.nextID())
	wait := make(chan message, 1)
	c.sess.mu.Lock()
	c.sess.waiting[id] = wait
	c.sess.mu.Unlock()
	err := c.out.send(fmt.Appendf(nil, `{"jsonrpc":"2.0","id":%s,"method":%q,"params":%s}`, id, method, params))
	if err != nil {
		return "", err
	}
	late := time.NewTimer(patience)
	defer late.Stop()
	select {
	case m := <-wait:
		if len(m.Error) > 0 {
			return string(m.Error), nil
		}
		return string(m.Result), nil
	case <-late.C:
		return "", errNoAnswer
	case <-c.ctx.Done():
		return "", c.ctx.Err()
	}
}

// requestState is opaque to the client and must come back as it was.
const requestState = "räw-state/+=\\u0041"

// need gets an answer of the client in the way of the call's era. In the newer one the call ends with a result that
// asks for it, and is repeated with the answer.
func (c *call) need(method, params string) (string, error) {
	if !c.modern {
		return c.ask(method, params)
	}
	var state string
	if err := json.Unmarshal([]byte(`"`+requestState+`"`), &state); err != nil {
		return "", err
	}
	if answer, ok := c.p.Responses["raw"]; ok {
		if c.p.State != state {
			return "", &rpcError{code: codeParams, message: fmt.Sprintf("requestState is %q, it was %q", c.p.State, state)}
		}
		return string(answer), nil
	}
	return "", c.finish(fmt.Sprintf(`{"resultType":"input_required","inputRequests":{"raw":{"method":%q,"params":%s}},`+
		`"requestState":"%s"}`, method, params, requestState))
}

// finish sends a result and says that the call has been answered.
func (c *call) finish(result string) error {
	if err := c.out.send(c.answer(result)); err != nil {
		return err
	}
	return errAnswered
}

func (c *call) notify(method, params string) error {
	return c.out.send(fmt.Appendf(nil, `{"jsonrpc":"2.0","method":%q,"params":%s}`, method, params))
}

// progress tells of a step, if the client wants to know.
func (c *call) progress(n int, message string) error {
	if len(c.p.Meta.Progress) == 0 {
		return nil
	}
	return c.notify("notifications/progress", fmt.Sprintf(`{"progressToken":%s,"progress":%d.10,"total":1e3,"message":%q}`,
		c.p.Meta.Progress, n, message))
}

func (c *call) log(data string) error {
	return c.notify("notifications/message", fmt.Sprintf(`{"level":"info","logger":"raw","data":%s}`, data))
}
