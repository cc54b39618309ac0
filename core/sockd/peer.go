package sockd

import (
	"fmt"
	"net"
	"os"
	"sync"
	"time"

	"github.com/yett-dev/yett/core/peer"
	"github.com/yett-dev/yett/core/store"
	"github.com/yett-dev/yett/sdk"
)

// caller is who is at the other end of a connection, as the kernel says, and the key that such a user stands for.
type caller struct {
	s    *Server
	text string // for the record
	user string // who counts as one
	key  string // name or id from the configuration, "" for none

	mu     sync.Mutex
	id     string    // of the live key that key meant last
	looked time.Time // when that was found out
}

// checkPeers refuses a mapping that would let in whatever the server itself runs.
func (s *Server) checkPeers() error {
	own := uint32(os.Geteuid())
	if name, mapped := s.set.Peers[own]; mapped && !s.set.OwnPeer {
		return &ConfigError{"socket.peers", fmt.Sprintf("user %d is the one that serves, and whatever it runs could speak "+
			"as the key %q; give the agents a user of their own", own, name)}
	}
	if n, some := nobody(); some {
		if name, mapped := s.set.Peers[n]; mapped && !s.set.OwnPeer {
			return &ConfigError{"socket.peers", fmt.Sprintf("user %d is whoever has no number in this user namespace, so "+
				"anybody outside of it could speak as the key %q; give the agents another user", n, name)}
		}
	}
	return nil
}

// nobody is the number of users who have none in this user namespace.
var nobody = sync.OnceValues(peer.Nobody)

// newCaller asks the kernel who connected.
func newCaller(s *Server, nc *net.UnixConn) (*caller, error) {
	cred, err := peer.Of(nc)
	if err != nil {
		return nil, err
	}
	defer cred.Close()
	p := &caller{s: s, text: fmt.Sprintf("uid:%d,pid:%d", cred.UID, cred.Pid), user: fmt.Sprintf("uid:%d", cred.UID)}
	n, some := nobody()
	if anybody := some && cred.UID == n; !anybody && (s.set.OwnPeer || int(cred.UID) != os.Geteuid()) {
		p.key = s.set.Peers[cred.UID]
	}
	if p.key != "" { // agents may be confined in many ways, but a gateway's plugin is nobody's agent
		if err := cred.Unmarked(); err != nil {
			s.said.Log("%s stands for no key (socket.peers): %v", p.text, err)
			p.key = ""
		}
	}
	return p, nil
}

// lookAgain is how often at most a name that means no live key is looked up again.
const lookAgain = time.Second

// live finds the key that the peer stands for. A rolled key is followed to its successor; a revoked one stands for
// nobody.
func (p *caller) live() (*store.Key, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.id != "" {
		if k, err := p.s.set.Service.KeyByID(p.id); err == nil {
			return k, nil
		}
	}
	now := time.Now()
	if now.Sub(p.looked) < lookAgain {
		return nil, unauthenticated()
	}
	p.looked = now
	k := p.s.named(p.key)
	if k == nil {
		p.id = ""
		p.s.said.Log("%s stands for the key %q (socket.peers), but there is no live key of that name or id", p.text, p.key)
		return nil, unauthenticated()
	}
	p.id = k.ID
	return p.s.set.Service.KeyByID(k.ID)
}

// named is the live key of that name, the newest if a rolled one lives on, or else the live one with that id.
func (s *Server) named(name string) *store.Key {
	now := s.set.Now()
	var byName, byID *store.Key
	for _, k := range s.set.Service.Keys() {
		switch {
		case k.Revoked(now) != nil || k.Expired(now):
		case k.Name == name && (byName == nil || k.CreatedAt.After(byName.CreatedAt)):
			byName = k
		case k.ID == name:
			byID = k
		}
	}
	if byName != nil {
		return byName
	}
	return byID
}

// unauthenticated is the one error for everybody who is not known.
func unauthenticated() *sdk.Error {
	return sdk.Errf(sdk.CodeUnauthenticated, `no valid API key: send {"type":"auth","api_key":"<key>"} first or api_key with the message, or have this user mapped to a key (socket.peers)`)
}

// credential is what a connection has shown before a message.
type credential struct {
	tried bool   // there was an auth
	id    string // of the key that the last auth gave, "" if it failed
}

// keyOf finds the live key that a message is from, and how that is known: the message's own key counts first, then
// auth, then the peer. One that fails is never made up for by the next: the sender would act as somebody it did not
// mean.
func (c *conn) keyOf(t *task) (key *store.Key, method string, err error) {
	switch {
	case t.env.keyed:
		key, err = c.s.set.Service.KeyOf(t.env.key)
		method = "api_key"
	case t.cred.id != "":
		key, err = c.s.set.Service.KeyByID(t.cred.id)
		method = "socket_auth"
	case !t.cred.tried && c.peer.key != "":
		key, err = c.peer.live()
		method = "peer"
	default:
		err = unauthenticated()
	}
	if err != nil {
		return nil, "", plain(err)
	}
	return key, method, nil
}

// plain says unauthenticated in the socket's words; who has the right secret of a dead key is told so.
func plain(err error) error {
	if e := shown(err); e.Code == sdk.CodeUnauthenticated {
		return unauthenticated()
	}
	return err
}
