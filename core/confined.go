package core

import (
	"fmt"
	"maps"
	"slices"

	"github.com/yett-dev/yett/core/confine"
	"github.com/yett-dev/yett/core/httpd"
	"github.com/yett-dev/yett/core/loaded"
	"github.com/yett-dev/yett/core/obs"
)

// Hide keeps every other process of this one's user from its memory, environment and descriptors. It leaves no core
// file. It is called before there are secrets.
func Hide() error {
	if err := confine.Hide(); err != nil {
		return fmt.Errorf("make this process one that others cannot look into: %w", err)
	}
	return nil
}

// gaps says what the server and its children lack now of what keeps them apart.
func (g *Gateway) gaps() (gaps []confine.Gap) {
	for _, m := range g.gen.Load().Sorted() {
		if m.Gaps != nil {
			gaps = confine.Merge(gaps, m.Gaps()...)
		}
	}
	if !confine.Hidden() {
		gaps = confine.Merge(gaps, confine.Gap{Part: confine.PartDumpable,
			Why: "this process can be looked into by others of its user: it was not started by yett serve or yett dev"})
	}
	return gaps
}

// confinement is the row of /readyz: what is missing is said, and the server is ready all the same.
func (g *Gateway) confinement() httpd.Part {
	gaps := g.gaps()
	part := httpd.Part{Name: "confinement", OK: len(gaps) == 0, Detail: confine.Told(gaps), Beside: true}
	if part.OK {
		part.Detail = "plugins and module workers are confined by the kernel"
	}
	cfg := g.gen.Load().Config
	for _, name := range slices.Sorted(maps.Keys(cfg.Plugins)) {
		if others := loaded.Sharers(cfg, name); others != "" {
			part.Detail += fmt.Sprintf("; plugins.%s: %s", name, others)
		}
	}
	return part
}

// confinementGauges shows each part of the confinement, for each plugin or module that has processes of ours.
func (g *Gateway) confinementGauges() {
	g.metrics.Table([]string{"module", "part"}, []obs.Column{
		gauge("yett_plugin_confined", "1 while this part of the confinement holds for the processes of a plugin or "+
			"module, 0 while it is missing."),
	}, func(emit func([]string, ...float64)) {
		for _, m := range g.gen.Load().Sorted() {
			if m.Gaps == nil || m.Process != nil && !m.Process.Ours() {
				continue
			}
			missing := m.Gaps()
			for _, part := range []string{confine.PartSeccomp, confine.PartFiles, confine.PartPorts, confine.PartSignals} {
				lacks := slices.ContainsFunc(missing, func(x confine.Gap) bool {
					return x.Part == part || x.Part == confine.PartOff
				})
				emit([]string{m.Name, part}, one(!lacks))
			}
		}
	})
}
