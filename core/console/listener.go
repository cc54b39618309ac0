package console

import (
	"net/http"
	"net/netip"

	"github.com/yett-dev/yett/core/edge"
)

// refusesHost gives the reason why a request for that name is not answered, or "". A page elsewhere can make a name of
// its own point at this machine (DNS rebinding) and would then count as the same site: the name gives it away.
func (c *Console) refusesHost(r *http.Request) string {
	t := edge.TargetOf(r)
	switch {
	case c.hosts[t.Host], c.hosts[t.Name]:
	case t.Here:
	case t.Loopback:
		return "The console does not listen on this port. To reach it through a forwarded port, add this name with its " +
			"port to console.hosts."
	default:
		return "The console does not answer under this name. Use http://localhost with its port on this machine, or add the name to console.hosts."
	}
	if !t.Loopback && !c.set.Secure {
		return "The console answers under this name over https only: a browser would not keep its session cookie."
	}
	return ""
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
