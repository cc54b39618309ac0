package config

import (
	"maps"
	"regexp"
	"slices"
	"strconv"

	"github.com/yett-dev/yett/config/strict"
)

// MaxSocketPath is the longest path that a Unix socket may have, in bytes: what the kernel takes less the end mark.
const MaxSocketPath = 107

// maxPeers bounds socket.peers.
const maxPeers = 1000

// Socket is where agents on the same machine ask.
type Socket struct {
	Enabled bool         `koanf:"enabled" default:"true" restart:"true" doc:"Whether there is a socket at all."`
	Path    Path         `koanf:"path" example:"/run/yett/yett.sock" restart:"true" doc:"File of the Unix socket, at most 107 bytes; yett.sock in storage.path if not given. Its directory is made (0700) if it does not exist."`
	Mode    string       `koanf:"mode" default:"0600" restart:"true" doc:"Who may connect, as permission bits of the file in octal and in quotes, such as \"0660\" with group. Whoever connects still needs a key."`
	Group   string       `koanf:"group" format:"text" maxlen:"64" example:"agents" restart:"true" doc:"Name or number of the group that the file belongs to."`
	Peers   []SocketPeer `koanf:"peers" empty:"ok" restart:"true" doc:"Users of this machine whose messages need no key: a message without one is their key's."`
}

// SocketPeer lets a user of the machine stand for a key.
type SocketPeer struct {
	UID int    `koanf:"uid" req:"true" min:"0" max:"4294967294" example:"1000" doc:"The user's number. Never that of the user that serves, whose programs could all speak as the key then, nor that of a plugin."`
	Key string `koanf:"key" req:"true" maxlen:"256" example:"local-agents" doc:"Name or id of the key. The name means the live key of that name at the time, so it follows yett keys roll."`
}

// Reserved lists the keys that later versions will know: the socket is served to this machine only.
func (Socket) Reserved() []string { return []string{"listen", "tcp", "tls"} }

var modeForm = regexp.MustCompile(`^0[0-7]{3}$`)

// Bits gives Mode as a number.
func (s Socket) Bits() uint32 {
	n, _ := strconv.ParseUint(s.Mode, 8, 32) // validate has checked it
	return uint32(n)
}

func (s *Socket) validate(r *strict.Report) {
	if len(s.Path) > MaxSocketPath {
		r.Errorf("socket.path", "is %d bytes long; the path of a Unix socket has at most %d", len(s.Path), MaxSocketPath)
	}
	switch {
	case !modeForm.MatchString(s.Mode):
		r.Errorf("socket.mode", `%s`, strict.Wants(`permission bits in octal such as "0660"`, s.Mode))
	case s.Bits()&0o111 != 0:
		r.Errorf("socket.mode", "%s lets somebody execute the socket, which means nothing; use read and write only",
			strict.Literal(s.Mode))
	case s.Bits()&0o600 != 0o600:
		r.Errorf("socket.mode", "%s keeps the server's own user out; begin with 06", strict.Literal(s.Mode))
	}
	s.validatePeers(r)
}

func (s *Socket) validatePeers(r *strict.Report) {
	if len(s.Peers) > maxPeers {
		r.Errorf("socket.peers", "has %d entries; at most %d are read", len(s.Peers), maxPeers)
	}
	first := map[int]int{}
	for i, p := range s.Peers {
		key := "socket.peers[" + strconv.Itoa(i) + "]"
		if j, twice := first[p.UID]; twice {
			r.Errorf(key+".uid", "%d is in entry %d already; a user stands for one key", p.UID, j)
			continue
		}
		first[p.UID] = i
	}
}

// separatePeers refuses a user who stands for a key and is a plugin's user too: the plugin could ask as the key, and
// the agents could answer for a plugin of connect.
func (c *Config) separatePeers(r *strict.Report) {
	const advice = "so that plugin could ask as the key %s; give the plugin or the agents another user"
	for i, peer := range c.Socket.Peers {
		key := "socket.peers[" + strconv.Itoa(i) + "].uid"
		for _, name := range slices.Sorted(maps.Keys(c.Plugins)) {
			switch p := c.Plugins[name]; {
			case p.Exec != "" && p.User.UID != 0 && p.User.UID == peer.UID:
				r.Errorf(key, "%d is the user of plugins.%s too (user.uid), "+advice, peer.UID, name, strict.Literal(peer.Key))
			case p.Connect != "" && p.Peer.UID == peer.UID:
				r.Errorf(key, "%d is the user of plugins.%s too (peer.uid), "+advice, peer.UID, name, strict.Literal(peer.Key))
			}
		}
	}
}
