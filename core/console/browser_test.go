package console

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"
)

// A real browser signs up, signs in, makes, rolls and revokes keys, answers calls and resumes a plugin: at desktop and
// phone width, in light and dark, without JavaScript too. YETT_CHROMIUM is the path of a Chromium, YETT_NODE_MODULES a
// folder that holds playwright-core and axe-core. YETT_SHOTS, if set, is a folder for pictures of the pages.
func TestInABrowser(t *testing.T) {
	chromium, modules := os.Getenv("YETT_CHROMIUM"), os.Getenv("YETT_NODE_MODULES")
	if chromium == "" || modules == "" {
		t.Skip("needs YETT_CHROMIUM (a browser) and YETT_NODE_MODULES (with playwright-core and axe-core)")
	}
	if _, err := os.ReadFile("testdata/browser.mjs"); err != nil { // so that the test cache knows of it
		t.Fatal(err)
	}
	d := newDesk(t)
	d.c.vault = newVault(standard, d.c.set.Random)
	agent := d.key("an agent", "agent")
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	served := make(chan error, 1)
	go func() { served <- d.c.Serve(ln) }()
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
		defer cancel()
		if err := d.c.Close(ctx); err != nil {
			t.Error(err)
		}
		if err := <-served; err != nil {
			t.Error(err)
		}
	})
	d.rack.plugins, d.rack.config = someplugins(),
		Config{Policy: "p", Reloaded: d.clock(), Error: "plugins.entitle: no such file\nyett.yaml:12:3: unknown key"}
	// The script moves the clock, to come back when the password is asked for again, and lets an agent ask for a call.
	clock := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/favicon.ico" { // which a browser asks for by itself
			w.WriteHeader(http.StatusNoContent)
			return
		}
		if args := r.URL.Query().Get("ask"); args != "" {
			decision, _ := d.asks(agent, `,"args":`+args)
			fmt.Fprint(w, decision)
			return
		}
		by, err := time.ParseDuration(r.URL.Query().Get("by"))
		if err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		d.advance(by)
	}))
	t.Cleanup(clock.Close)
	base := "http://" + ln.Addr().String()
	link, err := d.c.FirstLink(base)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 4*time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, "node", "testdata/browser.mjs", base, link, clock.URL)
	out, err := cmd.CombinedOutput()
	t.Logf("%s", out)
	if err != nil || !strings.HasSuffix(strings.TrimSpace(string(out)), "all done") {
		t.Errorf("the script failed: %v", err)
	}
}
