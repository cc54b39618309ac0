// Package doors lists the doors: the protocols of others that the gateway speaks beside its own. It owns which of them
// are on. It must never know what one of them says; each has a package of its own below.
package doors

import (
	"time"

	"github.com/yett-dev/yett/config"
	"github.com/yett-dev/yett/core/doors/ask"
	"github.com/yett-dev/yett/core/doors/authzen"
	"github.com/yett-dev/yett/core/doors/front"
	"github.com/yett-dev/yett/core/doors/guardrails"
	"github.com/yett-dev/yett/core/doors/mesh"
)

// Settings are what doors need; all are required.
type Settings struct {
	Config  config.Doors
	Limits  config.Limits
	Asker   *ask.Asker
	Now     func() time.Time
	Random  func(p []byte)                   // fills p
	Log     func(format string, args ...any) // must not wait
	Console func() string                    // the address of the console, "" when it is off
}

// Routes are those of all doors that are on and speak HTTP.
func Routes(set Settings) []front.Route {
	var routes []front.Route
	routes = append(routes, mesh.Routes(mesh.Settings{Config: set.Config, Limits: set.Limits, Asker: set.Asker,
		Console: set.Console})...)
	routes = append(routes, authzen.Routes(authzen.Settings{Config: set.Config.AuthZEN, Limits: set.Limits,
		Asker: set.Asker, Now: set.Now, Random: set.Random, Log: set.Log, Console: set.Console})...)
	routes = append(routes, guardrails.Routes(guardrails.Settings{Config: set.Config, Limits: set.Limits, Asker: set.Asker,
		Console: set.Console})...)
	return routes
}
