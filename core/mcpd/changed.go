package mcpd

import (
	"sync"

	"github.com/yett-dev/yett/sdk/wire"
)

// listeners are the open streams on which clients want to hear that tools have changed. Safe for concurrent use.
type listeners struct {
	mu  sync.Mutex
	all map[*exchange]bool
}

// toolsChanged tells a client to list tools again.
const toolsChanged = "notifications/tools/list_changed"

// ToolsChanged tells every client that listens to list tools again. It is called when other rules are in force: they
// may permit other tools. It does not wait for clients.
func (g *Gateway) ToolsChanged() {
	g.heard.mu.Lock()
	defer g.heard.mu.Unlock()
	for x := range g.heard.all {
		go x.out.event(eventOf(x.toolsChanged()))
	}
}

// listens reports whether the client of a stream hears of changes: on the stream beside all requests of the older era,
// and where it has asked for that in the newer one.
func (x *exchange) listens() bool {
	if x.msg == nil {
		return !x.c.modern
	}
	return x.msg.method == "subscriptions/listen" && x.msg.params.Get("notifications").Get("toolsListChanged").Bool()
}

// hear notes an open stream until done is called.
func (x *exchange) hear() (done func()) {
	l := &x.g.heard
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.all == nil {
		l.all = map[*exchange]bool{}
	}
	l.all[x] = true
	return func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		delete(l.all, x)
		x.out.end()
	}
}

func (x *exchange) toolsChanged() string {
	o := wire.Object(nil)
	o.Str("jsonrpc", "2.0")
	o.Str("method", toolsChanged)
	if x.msg != nil {
		o.Object("params", func(w *wire.Writer) {
			w.Object("_meta", func(w *wire.Writer) { w.Raw("io.modelcontextprotocol/subscriptionId", []byte(x.id())) })
		})
	}
	return string(o.Close())
}
