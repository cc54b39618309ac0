package core

import (
	"context"
	"net"
	"time"

	"github.com/yett-dev/yett/config"
	"github.com/yett-dev/yett/core/doors"
	"github.com/yett-dev/yett/core/doors/ask"
	"github.com/yett-dev/yett/core/doors/front"
	"github.com/yett-dev/yett/core/doors/mesh"
	"github.com/yett-dev/yett/core/ops"
)

// door is one listener with what serves it.
type door struct {
	name  string
	ln    net.Listener
	serve func() error
	close func(context.Context) error
}

// meshDoor names the doors that speak gRPC.
const meshDoor = "mesh"

// asker asks the operations in this process, for doors. scan is the largest scan if that is more than the API takes.
func (g *Gateway) asker(scan int64) *ask.Asker {
	set := ask.Settings{Operations: g.service, Scan: scan, Limits: g.cfg.Limits, Now: time.Now, Timeout: longest}
	if g.tracer != nil {
		set.Trace = func(traceparent string) ops.Trace { return g.follow(traceparent) }
	}
	return ask.New(set)
}

// listenDoors opens the listeners of doors that are on.
func (g *Gateway) listenDoors(context.Context) error {
	c := g.cfg.Doors
	if !c.HTTP() && !c.GRPC() {
		return nil
	}
	tlsSet, err := tlsConfig(g.cfg, "doors.tls", c.TLS)
	if err != nil {
		return err
	}
	g.certified("doors", tlsSet)
	asker := g.asker(0)
	if c.HTTP() {
		ln, err := net.Listen("tcp", c.Listen)
		if err != nil {
			return listenError("doors.listen: ", err)
		}
		f := front.New(front.Settings{Name: "doors", Keys: g.service, Limits: g.cfg.Limits, Hosts: c.Names(),
			HostKey: "doors.hosts", TLS: tlsSet, Proxies: g.cfg.Server.Proxies(), NewID: newName("req_"), Log: g.warn},
			doors.Routes(doors.Settings{Config: c, Limits: g.cfg.Limits, Asker: asker, Now: time.Now, Random: random,
				Log: g.warn, Console: g.consoleLink}))
		g.addDoor("doors", ln, f)
	}
	if c.GRPC() {
		ln, err := net.Listen("tcp", c.GRPCListen)
		if err != nil {
			return listenError("doors.grpc_listen: ", err)
		}
		s := mesh.New(mesh.Settings{Config: c, Keys: g.service, Limits: g.cfg.Limits, Asker: asker, TLS: tlsSet,
			Console: g.consoleLink, NewID: newName("req_"), Log: g.warn})
		g.doors = append(g.doors, door{name: meshDoor, ln: ln, serve: func() error { return s.Serve(ln) }, close: s.Close})
	}
	return nil
}

// addDoor has a front served on ln from Start on.
func (g *Gateway) addDoor(name string, ln net.Listener, f *front.Front) {
	g.doors = append(g.doors, door{name: name, ln: ln, serve: func() error { return f.Serve(ln) }, close: f.Close})
}

// DoorURL is the address of the doors that speak HTTP, "" when all are off.
func (g *Gateway) DoorURL() string { return g.doorURL("doors", g.cfg.Doors.TLS) }

func (g *Gateway) doorURL(name string, c config.TLS) string {
	scheme := "http"
	if c.Enabled() {
		scheme = "https"
	}
	for _, d := range g.doors {
		if d.name == name {
			return scheme + "://" + d.ln.Addr().String()
		}
	}
	return ""
}

// MeshAddr is the address of the doors that speak gRPC, "" when all are off.
func (g *Gateway) MeshAddr() string {
	for _, d := range g.doors {
		if d.name == meshDoor {
			return d.ln.Addr().String()
		}
	}
	return ""
}
