package console

import (
	"context"
	"crypto/tls"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/yett-dev/yett/core/store"
)

// A console with a certificate knows that a request came over TLS: the port of a name without one is 443 then.
func TestServesTLS(t *testing.T) {
	known := httptest.NewTLSServer(nil) // for its certificate, and a client that trusts it
	defer known.Close()
	d := newDesk(t)
	d.c.set.TLS = &tls.Config{Certificates: known.TLS.Certificates}
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	over := make(chan bool, 1)
	d.c.http.Handler = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		over <- r.TLS != nil
		d.c.ServeHTTP(w, r)
	})
	served := make(chan error, 1)
	go func() { served <- d.c.Serve(ln) }()
	res, err := known.Client().Get("https://" + ln.Addr().String() + "/signin")
	if err != nil {
		t.Fatal(err)
	}
	res.Body.Close()
	if res.StatusCode != http.StatusOK || !<-over {
		t.Errorf("status %d, and the request is not known to have come over TLS", res.StatusCode)
	}
	known.Client().CloseIdleConnections()
	if err := d.c.Close(context.Background()); err != nil {
		t.Error(err)
	}
	if err := <-served; err != nil {
		t.Error(err)
	}
}

// A try at which nobody could look is none of a known device's few: whoever keeps the console busy spends only their
// own.
func TestBusySpendsNoTryOfAKnownDevice(t *testing.T) {
	d := newDesk(t)
	b := d.as("ada", store.RoleAdmin)
	b.post("/signout")
	for range cap(d.c.vault.slots) {
		d.c.vault.slots <- struct{}{}
	}
	ended, end := context.WithCancel(context.Background())
	end() // nobody waits for a turn
	for range guessesPerMinute {
		r := httptest.NewRequest("POST", "/signin", strings.NewReader("")).WithContext(ended)
		r.AddCookie(&http.Cookie{Name: deviceCookie, Value: b.device})
		if _, err := d.c.admit(httptest.NewRecorder(), r, "ada", password); err == nil ||
			!strings.Contains(err.Error(), "Too many sign-ins") {
			t.Fatalf("got %v", err)
		}
	}
	for range cap(d.c.vault.slots) {
		<-d.c.vault.slots
	}
	b.signIn("ada", password).to(t, "/")
}
