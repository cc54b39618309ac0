package console

import (
	"net"
	"net/http"
	"net/netip"
	"strconv"
	"strings"

	"github.com/yett-dev/yett/core/edge"
)

// loopbackNames are what a browser on this machine calls it.
var loopbackNames = map[string]bool{"localhost": true, "127.0.0.1": true, "[::1]": true}

// refusesHost gives the reason why a request for that name is not answered, or "". A page elsewhere can make a name of
// its own point at this machine (DNS rebinding) and would then count as the same site: the name gives it away.
func (c *Console) refusesHost(r *http.Request) string {
	host := strings.ToLower(r.Host)
	name, port := host, ""
	if i := strings.LastIndexByte(host, ':'); i >= 0 && !strings.HasSuffix(host, "]") {
		name, port = host[:i], host[i+1:]
	}
	switch {
	case port == "" && r.TLS != nil:
		port = "443"
	case port == "":
		port = "80"
	}
	local, here := loopbackNames[name], localAddr(r)
	switch {
	case c.hosts[host], c.hosts[name]:
	case local && port == here.port:
	case here.ip != "" && name == here.ip && port == here.port: // an address is no name that could be pointed elsewhere
	case local:
		return "The console does not listen on this port. To reach it through a forwarded port, add this name with its " +
			"port to console.hosts."
	default:
		return "The console does not answer under this name. Use http://localhost with its port on this machine, or add the name to console.hosts."
	}
	if !local && !c.set.Secure {
		return "The console answers under this name over https only: a browser would not keep its session cookie."
	}
	return ""
}

// place is an address as a browser writes it.
type place struct{ ip, port string }

// localAddr is where the request's connection came in; empty if that is not known.
func localAddr(r *http.Request) place {
	addr, _ := r.Context().Value(http.LocalAddrContextKey).(net.Addr)
	if addr == nil {
		return place{}
	}
	ap, err := netip.ParseAddrPort(addr.String())
	if err != nil {
		return place{}
	}
	ip := ap.Addr().Unmap().WithZone("").String()
	if strings.Contains(ip, ":") {
		ip = "[" + ip + "]"
	}
	return place{ip, strconv.Itoa(int(ap.Port()))}
}

// peer is the address that a request came from.
func peer(r *http.Request) string {
	if ap, err := netip.ParseAddrPort(r.RemoteAddr); err == nil {
		return ap.Addr().Unmap().WithZone("").String()
	}
	return r.RemoteAddr
}

// network is what counts as one address for guesses: whoever has an IPv6 address has a /64 of them.
func network(r *http.Request) string {
	a, err := netip.ParseAddr(peer(r))
	if err != nil {
		return peer(r)
	}
	return edge.Network(a)
}

// behind is r with the address of whoever asked, if a trusted proxy sent it.
func (c *Console) behind(r *http.Request) *http.Request {
	ap, err := netip.ParseAddrPort(r.RemoteAddr)
	if err != nil || !c.set.Proxies.Trusts(ap.Addr()) {
		return r
	}
	out := *r
	out.RemoteAddr = c.set.Proxies.Client(ap.Addr(), r.Header.Values("X-Forwarded-For"),
		r.Header.Values("Forwarded")).String()
	return &out
}
