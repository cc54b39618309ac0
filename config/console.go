package config

import (
	"github.com/yett-dev/yett/config/strict"
)

// Console is where operators sign in.
type Console struct {
	Enabled bool     `koanf:"enabled" default:"true" restart:"true" doc:"Whether there is a console at all."`
	Listen  string   `koanf:"listen" default:"127.0.0.1:8422" format:"addr" restart:"true" doc:"Address and port of the console. Port 0 takes a free one. Off loopback only with tls."`
	TLS     TLS      `koanf:"tls" restart:"true" doc:"Certificate of the console, so that phones can reach it. Without it the console is in clear and must listen on loopback."`
	URL     string   `koanf:"url" format:"web" restart:"true" example:"https://yett.example.com" doc:"Address under which people reach the console, as it stands in links to calls that wait. The address it listens on if not given."`
	Hosts   []string `koanf:"hosts" empty:"ok" restart:"true" example:"[\"yett.example.com\"]" doc:"Names under which browsers reach the console, beside the address it listens on. A request for another name is refused."`
}

// Forms are those of the texts here.
func (Console) Forms() map[string]strict.Form { return webForm }

func (c *Console) validate(r *strict.Report) {
	if !c.Enabled {
		return
	}
	c.TLS.validate(r, "console.tls")
	if strict.CheckAddr(c.Listen) == nil && !loopback(c.Listen) && !c.TLS.Enabled() {
		r.Errorf("console.listen", "%s is not a loopback address; without console.tls only loopback is served",
			strict.Literal(c.Listen))
	}
	if len(c.Hosts) > maxHosts {
		r.Errorf("console.hosts", "has %d entries; at most %d are read", len(c.Hosts), maxHosts)
	}
}
