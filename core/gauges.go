package core

import (
	"time"

	"github.com/yett-dev/yett/core/edge"
	"github.com/yett-dev/yett/core/feed"
	"github.com/yett-dev/yett/core/obs"
	"github.com/yett-dev/yett/core/prochost"
)

// gauges shows what is kept elsewhere.
func (g *Gateway) gauges() {
	m := g.metrics
	m.Gauge("yett_store_up", "1 while the store takes writes.", nil, func() float64 {
		return one(g.store.Healthy() == nil)
	})
	m.Counter("yett_audit_records_total", "Records in the audit log.", nil, func() float64 {
		return float64(g.store.Seq())
	})
	m.Counter("yett_config_reloads_total", "Reloads that put a configuration in force.", nil, func() float64 {
		applied, _ := g.reloads.Counts()
		return float64(applied)
	})
	m.Counter("yett_config_refused_total", "Reloads that were refused; the configuration before them stayed.", nil,
		func() float64 {
			_, refused := g.reloads.Counts()
			return float64(refused)
		})
	m.Gauge("yett_config_refused", "1 when the last reload was refused.", nil, func() float64 {
		_, err := g.reloads.Last()
		return one(err != nil)
	})
	m.Counter("yett_retention_removed_total", "Records that retention has removed since its settings came into force.",
		nil, func() float64 { return float64(g.feeds.Retention().Records) })
	m.Gauge("yett_retention_clock_ahead_seconds",
		"How far the wall clock is ahead of what the machine's uptime allows; 0 while it is believed.", nil,
		func() float64 { return g.feeds.Retention().Ahead.Seconds() })
	m.Gauge("yett_clock_ahead_seconds", "How far the wall clock is ahead of what the machine's uptime allows, so that "+
		"the store's clock does not follow it; 0 while it does.", nil, func() float64 {
		times := g.store.Times()
		return times.Doubt().Seconds()
	})
	m.Gauge("yett_retention_failing", "1 when retention could not do its work when it looked last.", nil, func() float64 {
		return one(g.feeds.Retention().Error != "")
	})
	m.Gauge("yett_retention_failing_seconds", "For how long retention could not do its work, such as while the program "+
		"of audit.archive does not take what is to go; 0 while it does.", nil, func() float64 {
		if since := g.feeds.Retention().Since; !since.IsZero() {
			return time.Since(since).Seconds()
		}
		return 0
	})
	m.Counter("yett_log_lines_lost_total", "Lines of the server's log that were dropped because they could not be "+
		"written.", nil, func() float64 {
		lost, _ := g.logLost()
		return float64(lost)
	})
	g.metrics.Table([]string{"result"}, []obs.Column{
		counter("yett_trace_spans_total", "Spans that were sent to the collector, or dropped: there was no room, or it did "+
			"not take them."),
	}, func(emit func([]string, ...float64)) {
		var sent, dropped uint64
		if g.tracer != nil {
			sent, dropped = g.tracer.Counts()
		}
		emit([]string{"sent"}, float64(sent))
		emit([]string{"dropped"}, float64(dropped))
	})
	g.storeGauges()
	g.machineGauges()
	g.diskGauges()
	g.checkpointGauges()
	g.connectionGauges()
	g.moduleGauges()
	g.processGauges()
	g.confinementGauges()
	g.feedGauges()
}

func one(yes bool) float64 {
	if yes {
		return 1
	}
	return 0
}

func gauge(name, help string) obs.Column   { return obs.Column{Name: name, Help: help} }
func counter(name, help string) obs.Column { return obs.Column{Name: name, Help: help, Counter: true} }

// storeGauges shows how batches get to the disk, and what waits.
func (g *Gateway) storeGauges() {
	g.metrics.Histograms([]obs.Column{
		gauge("yett_store_sync_seconds", "Time that a batch waited for the disk: its write and its sync."),
		gauge("yett_store_batch_commands", "Commands, such as decisions, that one batch carried to the disk."),
		gauge("yett_store_batch_records", "Records of one batch."),
	}, func() []obs.Histogram {
		o := g.store.Observe()
		return []obs.Histogram{obs.Histogram(o.Syncs), obs.Histogram(o.Commands), obs.Histogram(o.Records)}
	})
	g.metrics.Table(nil, []obs.Column{
		counter("yett_audit_bytes_total", "Bytes of the records that were written since the start."),
		gauge("yett_store_queue_commands", "Commands that wait for the next batches."),
		gauge("yett_store_queue_bytes", "About how many bytes the commands that wait for the next "+
			"batches write; limits.queued bounds them."),
		counter("yett_store_stalls_total", "Times that the disk did not answer in time, and all that waited for it was "+
			"refused."),
		gauge("yett_checkpoint_age_seconds", "How long the oldest record that no checkpoint (log/head) covers has been on "+
			"disk; 0 when all are covered."),
		gauge("yett_approvals_pending", "Deferred calls that wait for a person."),
		gauge("yett_approvals_oldest_seconds", "How long the oldest deferred call that waits for a person has "+
			"waited."),
	}, func(emit func([]string, ...float64)) {
		o := g.store.Observe()
		emit(nil, float64(o.Bytes), float64(o.QueuedCommands), float64(o.QueuedBytes), float64(o.Stalls),
			o.CheckpointAge.Seconds(), float64(o.Pending), o.PendingAge.Seconds())
	})
}

// machineGauges shows what the gateway stands on.
func (g *Gateway) machineGauges() {
	g.metrics.Table([]string{"direction"}, []obs.Column{
		counter("yett_clock_jumps_total", "Jumps of the wall clock by a second or more against the machine's uptime."),
	}, func(emit func([]string, ...float64)) {
		emit([]string{"forward"}, float64(g.machine.forward.Load()))
		emit([]string{"back"}, float64(g.machine.back.Load()))
	})
	g.metrics.Table(nil, []obs.Column{
		gauge("yett_storage_free_bytes", "Room that is left on the disk of the data directory."),
		gauge("yett_storage_size_bytes", "Size of the disk of the data directory."),
	}, func(emit func([]string, ...float64)) {
		if size := g.machine.size.Load(); size > 0 { // else nobody knows
			emit(nil, float64(g.machine.free.Load()), float64(size))
		}
	})
	g.metrics.Table([]string{"listener"}, []obs.Column{
		gauge("yett_certificate_expiry_timestamp_seconds", "When the certificate of a listener, or one of its chain, "+
			"expires, in seconds since 1970."),
	}, func(emit func([]string, ...float64)) {
		for listener, at := range g.expiries {
			emit([]string{listener}, float64(at.Unix()))
		}
	})
}

// connectionGauges shows who holds the places of the two listeners that agents use.
func (g *Gateway) connectionGauges() {
	g.metrics.Table([]string{"listener"}, []obs.Column{
		gauge("yett_connections", "Open connections of the HTTP listener (http) or of the socket."),
		gauge("yett_connections_keyless", "Of these, the ones that have not shown a valid key."),
		counter("yett_connections_evicted_total", "Connections closed to make room for others, or because their key was "+
			"revoked, expired or killed."),
		counter("yett_connections_refused_total", "Connections and requests refused for limits.connections or "+
			"limits.connections_per_key: all places were busy."),
	}, func(emit func([]string, ...float64)) {
		show := func(listener string, d *edge.Door) {
			open, keyless, evicted, refused := d.Counts()
			emit([]string{listener}, float64(open), float64(keyless), float64(evicted), float64(refused))
		}
		show("http", g.http.Door())
		if g.sock != nil {
			show("socket", g.sock.Door())
		}
	})
}

// moduleGauges shows the modules and plugins of the generation in force.
func (g *Gateway) moduleGauges() {
	g.metrics.Table([]string{"module"}, []obs.Column{
		counter("yett_module_calls_total", "Calls of a module or plugin."),
		counter("yett_module_errors_total", "Calls of a module or plugin that did not run to their end."),
		counter("yett_module_discarded_total", "Instances of a module thrown away after an error or because they grew."),
		counter("yett_module_fuel_total", "Units of work, about an instruction each, that a module did."),
		gauge("yett_module_up", "1 while a module or plugin takes calls."),
	}, func(emit func([]string, ...float64)) {
		for _, m := range g.gen.Load().Sorted() {
			c := m.Counts()
			up, _, _ := m.Now()
			emit([]string{m.Name}, float64(c.Calls), float64(c.Errors), float64(c.Discarded), float64(c.Fuel), one(up))
		}
	})
}

// processGauges shows the plugins of the generation in force that are processes.
func (g *Gateway) processGauges() {
	each := func(show func(name string, p *prochost.Plugin)) {
		for _, m := range g.gen.Load().Sorted() {
			if m.Process != nil {
				show(m.Name, m.Process)
			}
		}
	}
	g.metrics.Table([]string{"module"}, []obs.Column{
		counter("yett_plugin_late_total", "Answers of a plugin process that came after their deadline."),
		counter("yett_plugin_refused_total", "Calls that a plugin process never saw: it was down, its queue full or its "+
			"breaker open."),
		counter("yett_plugin_wrong_total", "Answers of a plugin process that broke a rule, or said that it failed."),
		counter("yett_plugin_lost_total", "Calls whose plugin process ended meanwhile."),
		counter("yett_plugin_cached_total", "Calls answered from the decision cache."),
		counter("yett_plugin_retried_total", "Calls put to another replica after their own had failed."),
		counter("yett_plugin_starts_total", "Starts of plugin processes."),
		counter("yett_plugin_crashes_total", "Ends of plugin processes that nobody asked for."),
		counter("yett_plugin_breaker_opened_total", "Times that a plugin's breaker opened."),
		gauge("yett_plugin_in_flight", "Calls that a plugin process has, or that wait for it."),
		gauge("yett_plugin_waiting", "Of these, the ones that wait in its queue."),
	}, func(emit func([]string, ...float64)) {
		each(func(name string, p *prochost.Plugin) {
			s := p.Stats()
			emit([]string{name}, float64(s.Late), float64(s.Refused), float64(s.Wrong), float64(s.Lost), float64(s.CacheHits),
				float64(s.Retried), float64(s.Starts), float64(s.Crashes), float64(s.BreakerOpen), float64(s.InFlight),
				float64(s.Waiting))
		})
	})
	g.metrics.Table([]string{"module", "state"}, []obs.Column{
		gauge("yett_plugin_state", "Replicas of a plugin process by state: verify, starting, probing, unready, ready, "+
			"draining, backoff, quarantined or stopped."),
	}, func(emit func([]string, ...float64)) {
		each(func(name string, p *prochost.Plugin) {
			in := map[prochost.State]int{}
			for _, r := range p.Status().Replicas {
				in[r.State]++
			}
			for _, state := range prochost.States() {
				emit([]string{name, string(state)}, float64(in[state]))
			}
		})
	})
}

// feedGauges shows how far subscribers have come.
func (g *Gateway) feedGauges() {
	g.metrics.Table([]string{"subscriber"}, []obs.Column{
		gauge("yett_subscriber_lag_records", "Records that a subscriber has not acknowledged yet."),
		gauge("yett_subscriber_lag_bytes", "About how large these records are."),
		gauge("yett_subscriber_lag_seconds", "Age of the oldest of them."),
		gauge("yett_subscriber_paused", "1 while a subscriber waits for yett plugin resume."),
		counter("yett_subscriber_delivered_total", "Records that a subscriber acknowledged."),
		counter("yett_subscriber_redelivered_total", "Records that were sent again, replays aside."),
		counter("yett_subscriber_lost_total", "Records that retention removed before they were delivered; the subscriber "+
			"was told of the gap."),
		counter("yett_subscriber_dead_letters_total", "Records passed over after five failures."),
		counter("yett_subscriber_failures_total", "Streams that ended because of a record."),
	}, func(emit func([]string, ...float64)) {
		for _, r := range g.feeds.All() {
			s := r.Status()
			emit([]string{r.Name}, float64(s.LagRecords), float64(s.LagBytes), s.Lag.Seconds(), one(s.State == feed.StatePaused),
				float64(s.Delivered), float64(s.Redelivered), float64(s.Lost), float64(s.DeadLetters), float64(s.Failures))
		}
	})
}
