package edge

import (
	"net"
	"net/http"
	"net/netip"
	"strconv"
	"strings"
)

// Target is the name under which a request came, from its Host header. Whoever asks for a name that is not ours may be
// a page elsewhere that lets a name of its own lead here (DNS rebinding).
type Target struct {
	Host     string // as sent, in lower case
	Name     string // without the port
	Loopback bool   // it is what programs on this machine call it
	Here     bool   // it is the address on which the connection came in, or a loopback name with its port
}

var loopbackNames = map[string]bool{"localhost": true, "127.0.0.1": true, "[::1]": true}

// TargetOf reads the target of a request that net/http serves.
func TargetOf(r *http.Request) Target {
	t := Target{Host: strings.ToLower(r.Host)}
	port := ""
	t.Name = t.Host
	if i := strings.LastIndexByte(t.Host, ':'); i >= 0 && !strings.HasSuffix(t.Host, "]") {
		t.Name, port = t.Host[:i], t.Host[i+1:]
	}
	switch {
	case port == "" && r.TLS != nil:
		port = "443"
	case port == "":
		port = "80"
	}
	t.Loopback = loopbackNames[t.Name]
	ip, at := localAddr(r)
	// an address is no name that could be pointed elsewhere
	t.Here = port == at && (t.Loopback || ip != "" && t.Name == ip)
	return t
}

// localAddr is where the request's connection came in, as a client writes it; empty if that is not known.
func localAddr(r *http.Request) (ip, port string) {
	addr, _ := r.Context().Value(http.LocalAddrContextKey).(net.Addr)
	if addr == nil {
		return "", ""
	}
	ap, err := netip.ParseAddrPort(addr.String())
	if err != nil {
		return "", ""
	}
	ip = ap.Addr().Unmap().WithZone("").String()
	if strings.Contains(ip, ":") {
		ip = "[" + ip + "]"
	}
	return ip, strconv.Itoa(int(ap.Port()))
}
