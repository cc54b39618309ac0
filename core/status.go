package core

import (
	"fmt"
	"time"

	"github.com/yett-dev/yett/core/feed"
	"github.com/yett-dev/yett/core/httpd"
	"github.com/yett-dev/yett/core/loaded"
	"github.com/yett-dev/yett/core/quote"
)

// ready gives the rows of /readyz.
func (g *Gateway) ready() []httpd.Part {
	parts := []httpd.Part{{Name: "store", OK: true}, {Name: "audit", OK: true}}
	if err := g.store.Healthy(); err != nil {
		parts[0] = httpd.Part{Name: "store", Detail: err.Error()}
		parts[1] = httpd.Part{Name: "audit", Detail: "nothing can be recorded"}
	}
	parts = append(parts, g.disk())
	for _, m := range g.gen.Load().Sorted() {
		// A plugin that is down denies what it was to look at, and nothing else: the gateway is ready all the same.
		up, detail, s := m.Now()
		parts = append(parts, httpd.Part{Name: "plugin " + m.Name, OK: up, Detail: detail, State: string(s.State),
			Beside: true})
	}
	for _, f := range g.feeds.All() {
		s := f.Status()
		parts = append(parts, httpd.Part{Name: "subscriber " + f.Name, OK: s.State == feed.StateDelivering,
			Detail: f.Detail(s), State: s.State, Beside: true})
	}
	times := g.store.Times()
	if by := times.Doubt(); by > 0 {
		parts = append(parts, httpd.Part{Name: "clock", Beside: true,
			Detail: fmt.Sprintf("the wall clock is %v ahead of the machine's uptime: until it is set right, or confirmed "+
				"(yett clock confirm), what is over by either clock is refused and ends not for good", by.Round(time.Second))})
	} else if by := g.feeds.Retention().Ahead; by > 0 {
		parts = append(parts, httpd.Part{Name: "clock", Beside: true,
			Detail: fmt.Sprintf("the wall clock is %v ahead of the machine's uptime, so the log is trimmed slowly",
				by.Round(time.Second))})
	}
	if r := g.feeds.Retention(); r.Error != "" { // why is for operators, in the log
		parts = append(parts, httpd.Part{Name: "retention", Beside: true, Detail: "records that are to be removed " +
			"wait since " + r.Since.UTC().Format(time.RFC3339) + ": the server's log says why"})
	}
	if _, lost := g.logLost(); lost > 0 { // the log guards nothing: the gateway is ready all the same
		parts = append(parts, httpd.Part{Name: "log", Beside: true,
			Detail: fmt.Sprintf("lines of the server's log are being lost, %d so far: they cannot be written", lost)})
	}
	for _, s := range g.checkpoints.Status() {
		if s.Detail != "" {
			parts = append(parts, httpd.Part{Name: "checkpoints", Beside: true, Detail: s.Detail})
		}
	}
	parts = append(parts, g.confinement())
	if _, err := g.reloads.Last(); err != nil {
		parts = append(parts, httpd.Part{Name: "config", Beside: true,
			Detail: "the last change was refused, the one before is in force: " +
				quote.Begin(err.Error(), loaded.MaxNoted)})
	}
	return parts
}

func (g *Gateway) logLost() (total, unsaid uint64) {
	if g.opts.LogLost == nil {
		return 0, 0
	}
	return g.opts.LogLost()
}
