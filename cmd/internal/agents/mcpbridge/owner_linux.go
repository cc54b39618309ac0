package mcpbridge

import (
	"bytes"
	"encoding/hex"
	"fmt"
	"net/netip"
	"os"
	"slices"
	"strconv"
	"strings"
)

// listensAs refuses an address of this machine on which anybody but one user listens. The kernel says who does.
func listensAs(addr string, owner uint32) error {
	at, err := netip.ParseAddrPort(addr)
	if err != nil {
		return err
	}
	found := false
	for _, file := range []string{"/proc/net/tcp", "/proc/net/tcp6"} {
		text, err := os.ReadFile(file)
		if err != nil {
			continue // a system without IPv6
		}
		for row := range bytes.Lines(text) {
			f := strings.Fields(string(row))
			if len(f) < 8 || f[3] != "0A" || !covers(f[1], at) {
				continue
			}
			if uid, err := strconv.ParseUint(f[7], 10, 32); err != nil || uint32(uid) != owner {
				return fmt.Errorf("user %s listens at %s, and the gateway runs as user %d: the key is not sent there", f[7], addr,
					owner)
			}
			found = true
		}
	}
	if !found {
		return fmt.Errorf("nothing listens at %s: is the gateway running?", addr)
	}
	return nil
}

// covers says whether a local address of the kernel's table takes connections to an address.
func covers(local string, at netip.AddrPort) bool {
	host, port, _ := strings.Cut(local, ":")
	n, err := strconv.ParseUint(port, 16, 16)
	raw, hexErr := hex.DecodeString(host)
	if err != nil || hexErr != nil || uint16(n) != at.Port() || len(raw)%4 != 0 {
		return false
	}
	for i := 0; i < len(raw); i += 4 { // each word is in this machine's order
		slices.Reverse(raw[i : i+4])
	}
	ip, ok := netip.AddrFromSlice(raw)
	return ok && (ip.IsUnspecified() || ip.Unmap() == at.Addr().Unmap())
}
