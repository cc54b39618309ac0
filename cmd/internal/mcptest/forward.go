package mcptest

import (
	"bytes"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"testing"
)

// Forward starts a forwarder on loopback in front of a gateway, and gives the URL that stands for the target. It adds
// headers to each request, such as the key that the conformance runner cannot send. It keeps the client's Host and
// Origin, so that the gateway sees foreign ones; only its own address becomes the target's, as if it were not there. It
// passes each byte of an answer on as it comes.
func Forward(t testing.TB, target string, header http.Header) string {
	t.Helper()
	return forward(t, target, header, true, nil)
}

// ForwardOwnHost is a forwarder that hides the client's Host, as careless proxies do.
func ForwardOwnHost(t testing.TB, target string) string {
	t.Helper()
	return forward(t, target, nil, false, nil)
}

// ForwardAfter is Forward that calls a function with the body of each request before it goes on, so that something can
// happen between two requests of a client that waits for nothing.
func ForwardAfter(t testing.TB, target string, header http.Header, before func(body []byte)) string {
	t.Helper()
	return forward(t, target, header, true, before)
}

func forward(t testing.TB, target string, header http.Header, keepHost bool, before func(body []byte)) string {
	t.Helper()
	to, err := url.Parse(target)
	if err != nil {
		t.Fatal(err)
	}
	var own string // what clients call the forwarder
	proxy := &httputil.ReverseProxy{
		Rewrite: func(r *httputil.ProxyRequest) {
			r.Out.URL.Scheme, r.Out.URL.Host = to.Scheme, to.Host
			if r.Out.Host = r.In.Host; !keepHost || r.In.Host == own {
				r.Out.Host = to.Host
			}
			if r.In.Header.Get("Origin") == "http://"+own {
				r.Out.Header.Set("Origin", "http://"+to.Host)
			}
			for name, values := range header {
				r.Out.Header[http.CanonicalHeaderKey(name)] = values
			}
		},
		FlushInterval: -1,                         // at once
		ErrorLog:      log.New(io.Discard, "", 0), // a target that dies is seen by the client
		Transport:     &http.Transport{DisableCompression: true, MaxIdleConnsPerHost: 64},
	}
	web := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		// The whole body is read first. A server that answers before its last byte was read would have net/http close the
		// body under the proxy, which then drops the connection in the middle of the answer.
		body, err := io.ReadAll(r.Body)
		if err != nil {
			return // the client has gone
		}
		if before != nil {
			before(body)
			proxy.Transport.(*http.Transport).CloseIdleConnections() // the target may be another process now
		}
		r.Body = io.NopCloser(bytes.NewReader(body))
		proxy.ServeHTTP(w, r)
	}))
	own = web.Listener.Addr().String()
	web.Start()
	t.Cleanup(func() {
		web.CloseClientConnections()
		web.Close()
		proxy.Transport.(*http.Transport).CloseIdleConnections()
	})
	return web.URL + to.RequestURI()
}
