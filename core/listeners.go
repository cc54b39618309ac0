package core

import (
	"context"
	"encoding/pem"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/yett-dev/yett/core/console"
	"github.com/yett-dev/yett/core/httpd"
	"github.com/yett-dev/yett/core/obs"
	"github.com/yett-dev/yett/core/ops"
	"github.com/yett-dev/yett/core/sockd"
	"github.com/yett-dev/yett/core/store"
)

// listenHTTP opens the listeners of the HTTP API and of the metrics.
func (g *Gateway) listenHTTP(context.Context) (err error) {
	set := httpd.Settings{Service: g.service, Ready: g.ready, Now: time.Now, NewID: newName("req_"),
		Version: g.opts.Version, Server: g.cfg.Server, Limits: g.cfg.Limits, Timeout: longest, Flight: g.service,
		Log: g.warn}
	if g.tracer != nil {
		set.Trace = g.follow
	}
	if set.TLS, err = tlsConfig(g.cfg, "server.tls", g.cfg.Server.TLS); err != nil {
		return err
	}
	g.certified("http", set.TLS)
	if set.TLS != nil {
		g.certificate = string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE",
			Bytes: set.TLS.Certificates[0].Certificate[0]}))
	}
	g.http = httpd.New(set)
	if g.ln, err = net.Listen("tcp", g.cfg.Server.Listen); err != nil {
		return listenError("server.listen: ", err)
	}
	if !g.cfg.Server.MetricsOff() {
		g.gauges()
		who := obs.Access{Token: g.metricsToken}
		if who.TLS, err = tlsConfig(g.cfg, "server.metrics_tls", g.cfg.Server.MetricsTLS); err != nil {
			return err
		}
		g.certified("metrics", who.TLS)
		if g.shown, err = g.metrics.Listen(g.cfg.Server.Metrics, who, g.warn); err != nil {
			return listenError("", err)
		}
	}
	return nil
}

// metricsToken is what readers of the metrics have to send, as the configuration in force has it.
func (g *Gateway) metricsToken() string { return g.gen.Load().Config.Server.MetricsToken.Value() }

// longest bounds one operation; a long poll of 60 s fits in.
const longest = 75 * time.Second

// MapPeer lets messages of that user of the machine on the socket, if they bring no key, be those of the key with that
// id or name. Before Start only.
func (g *Gateway) MapPeer(uid uint32, key string) { g.peers[uid] = key }

// listenSocket opens the agents' socket.
func (g *Gateway) listenSocket() error {
	c := g.cfg.Socket
	if !c.Enabled {
		return nil
	}
	for _, p := range c.Peers {
		g.peers[uint32(p.UID)] = p.Key
	}
	path := string(c.Path)
	if path == "" {
		path = filepath.Join(g.dir, "yett.sock")
	}
	err := g.socketAt(path)
	var bad *sockd.ConfigError
	// nobody asked for that path: it may be too long, or lie where others may write
	if errors.As(err, &bad) && bad.Key == "socket.path" && c.Path == "" {
		if g.sockDir, err = os.MkdirTemp("", "yett-"); err != nil { // 0700, and new: nobody was there before
			return fmt.Errorf("socket: %w", err)
		}
		g.warn("socket: %v; socket.path names no other, so the socket is %s", bad, filepath.Join(g.sockDir, "yett.sock"))
		err = g.socketAt(filepath.Join(g.sockDir, "yett.sock"))
	}
	if errors.As(err, &bad) {
		return configError{err}
	}
	return err
}

func (g *Gateway) socketAt(path string) (err error) {
	c := g.cfg.Socket
	var follow func() ops.Trace
	if g.tracer != nil {
		follow = func() ops.Trace { return g.follow("") } // a message of the socket brings no header
	}
	g.sock, err = sockd.Listen(sockd.Settings{Service: g.service, Path: path, Mode: c.Bits(), Group: c.Group,
		Peers: g.peers, OwnPeer: g.opts.OwnPeer, Trace: follow,
		Limits: g.cfg.Limits, Timeout: longest,
		Now: time.Now, NewID: newName("con_"), Version: g.opts.Version, Log: g.warn})
	return err
}

// listenConsole opens the console's listener.
func (g *Gateway) listenConsole(ctx context.Context) error {
	c := g.cfg.Console
	if !c.Enabled {
		return nil
	}
	people, err := store.LoadOperators(ctx, g.store)
	if err != nil {
		return err
	}
	tlsSet, err := tlsConfig(g.cfg, "console.tls", c.TLS)
	if err != nil {
		return err
	}
	g.certified("console", tlsSet)
	g.consoleLn, err = net.Listen("tcp", c.Listen)
	if errors.Is(err, syscall.EADDRINUSE) && !g.cfg.Written("console.listen") {
		g.warn("console.listen: %s is taken, and the configuration does not ask for it; the console takes a free "+
			"port instead", c.Listen)
		g.consoleLn, err = net.Listen("tcp", "127.0.0.1:0")
	}
	if err != nil {
		return listenError("console.listen: ", err)
	}
	g.consoleURL = "http://" + g.consoleLn.Addr().String()
	if tlsSet != nil {
		g.consoleURL = strings.Replace(g.consoleURL, "http:", "https:", 1)
	}
	g.console = console.New(console.Settings{Keys: g.service, Approvals: g.service, Plugins: g,
		State: people, Now: g.store.Now, Random: random, Log: g.warn, Hosts: c.Hosts, TLS: tlsSet, Secure: tlsSet != nil,
		Version: g.opts.Version, Proxies: g.cfg.Server.Proxies()})
	return nil
}

// ConsoleURL is the address of the console, "" when it is off.
func (g *Gateway) ConsoleURL() string { return g.consoleURL }

// consoleLink is what links to the console begin with, "" when there is none.
func (g *Gateway) consoleLink() string {
	if u := g.cfg.Console.URL; u != "" && g.consoleURL != "" {
		return strings.TrimSuffix(u, "/")
	}
	return g.consoleURL
}

// FirstOperatorLink is the one-time link with which the first operator signs up; "" when the console is off or there is
// an operator already.
func (g *Gateway) FirstOperatorLink() string {
	if g.console == nil {
		return ""
	}
	link, err := g.console.FirstLink(g.consoleURL)
	if err != nil {
		return "" // there is somebody to sign in
	}
	return link
}

// SocketPath is the file of the agents' socket, "" when it is off.
func (g *Gateway) SocketPath() string {
	if g.sock == nil {
		return ""
	}
	return g.sock.Path()
}

// OwnUser is the user that serves.
func OwnUser() uint32 { return uint32(os.Getuid()) }

// listenError says what to do about an address that cannot be served.
func listenError(key string, err error) error {
	hint := ""
	switch {
	case errors.Is(err, syscall.EADDRINUSE):
		hint = " (another program serves this address: stop it, or choose another port; port 0 takes a free one)"
	case errors.Is(err, syscall.EACCES):
		hint = " (ports below 1024 need root or CAP_NET_BIND_SERVICE: choose a higher one)"
	case errors.Is(err, syscall.EADDRNOTAVAIL):
		hint = " (this machine does not have that address)"
	}
	return fmt.Errorf("%s%w%s", key, err, hint)
}
