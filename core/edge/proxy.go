package edge

import (
	"net/netip"
	"strings"
)

// Proxies are the addresses whose word about a client's address counts. The zero value trusts nobody.
type Proxies []netip.Prefix

// Trusts says whether the address is one of them.
func (p Proxies) Trusts(a netip.Addr) bool {
	a = a.Unmap().WithZone("")
	for _, prefix := range p {
		if prefix.Contains(a) {
			return true
		}
	}
	return false
}

// Client is the address of whoever asked, by the connection's other end and the values of X-Forwarded-For and
// Forwarded, each in the order sent. Only what trusted proxies have added counts: the last address that is not theirs.
// Where both headers are there one may be the client's own, and where an entry is no address nothing before it can be
// told: then it is the nearest address that is known.
func (p Proxies) Client(peer netip.Addr, xff, forwarded []string) netip.Addr {
	if !p.Trusts(peer) || len(xff) > 0 && len(forwarded) > 0 {
		return peer
	}
	entries := strings.Split(strings.Join(xff, ","), ",")
	if len(forwarded) > 0 {
		entries = strings.Split(strings.Join(forwarded, ","), ",")
		for i := range entries {
			entries[i] = forwardedFor(entries[i])
		}
	}
	at := peer
	for i := len(entries) - 1; i >= 0 && p.Trusts(at); i-- {
		a, ok := address(entries[i])
		if !ok {
			return at
		}
		at = a
	}
	return at
}

// forwardedFor is the value of for in one element of a Forwarded header (RFC 7239).
func forwardedFor(element string) string {
	for pair := range strings.SplitSeq(element, ";") {
		name, value, ok := strings.Cut(strings.TrimSpace(pair), "=")
		if ok && strings.EqualFold(name, "for") {
			return strings.Trim(value, `"`)
		}
	}
	return ""
}

// address reads an address, with a port or without.
func address(s string) (netip.Addr, bool) {
	s = strings.TrimSpace(s)
	if ap, err := netip.ParseAddrPort(s); err == nil {
		return ap.Addr().Unmap().WithZone(""), true
	}
	a, err := netip.ParseAddr(strings.TrimSuffix(strings.TrimPrefix(s, "["), "]"))
	return a.Unmap().WithZone(""), err == nil
}
