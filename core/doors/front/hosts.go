package front

import (
	"net/http"
	"net/url"
	"strings"

	"github.com/yett-dev/yett/core/edge"
	"github.com/yett-dev/yett/sdk"
)

// refusesHost gives the reason why a request for that name is not answered, or "". A page elsewhere can make a name of
// its own point at this machine (DNS rebinding): the name gives it away.
func (f *Front) refusesHost(r *http.Request) string {
	if t := edge.TargetOf(r); t.Here || f.hosts[t.Host] || f.hosts[t.Name] {
		return ""
	}
	return "This listener does not answer under the name in the Host header. Use the address it listens on, or add the " +
		"name to " + f.set.HostKey + "."
}

// refusesOrigin gives the reason why a page of that origin is not answered, or "". Programs send no Origin; browsers
// send that of the page, and no page of another site may speak to a door.
func (f *Front) refusesOrigin(r *http.Request) string {
	origins := r.Header.Values("Origin")
	if len(origins) == 0 {
		return ""
	}
	u, err := url.Parse(origins[0])
	if len(origins) == 1 && err == nil && u.Host != "" {
		host := strings.ToLower(u.Host)
		if strings.EqualFold(host, r.Host) || f.hosts[host] || f.hosts[strings.ToLower(u.Hostname())] {
			return ""
		}
	}
	return "Pages of this origin may not use this listener. Add its host to " + f.set.HostKey + " if they may."
}

// turnAway answers a request that is none of ours.
func (f *Front) turnAway(w http.ResponseWriter, r *http.Request, why string) {
	_, pattern := f.mux.Handler(r)
	if route := f.routes[pattern]; route != nil && route.Always {
		route.Refuse(w, &Request{Request: r}, sdk.Errf(sdk.CodeBadRequest, "%s", why))
		return
	}
	http.Error(w, why, http.StatusForbidden)
}
