package core

import (
	"context"
	"encoding/base64"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/yett-dev/yett/config"
	"github.com/yett-dev/yett/core/log"
)

// TestACheckpointWebhookThatIsDown: the gateway starts, and shows it; what the receiver knows of another log is shown
// as soon as it can be asked.
func TestACheckpointWebhookThatIsDown(t *testing.T) {
	var says atomic.Pointer[string]
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if text := says.Load(); text != nil {
			_, _ = io.WriteString(w, *text)
			return
		}
		w.WriteHeader(http.StatusBadGateway)
	}))
	t.Cleanup(srv.Close)
	w := newWorld(t, func(w *world) {
		w.put("secret", "wh"+"sec_"+base64.StdEncoding.EncodeToString(make([]byte, 32)))
		w.write("", "", fmt.Sprintf("audit: {checkpoints: {every: 1s, webhooks: [{name: archive, url: %q, secret: {file: "+
			"secret}}]}}\n", srv.URL))
	})
	w.g.gauges()
	if said := w.logged(); !strings.Contains(said, "webhook archive: it answered 502 Bad Gateway: the log is not held") {
		t.Errorf("logged %q", said)
	}
	if part := w.part("checkpoints"); part != "webhook archive does not take checkpoints: it answered 502 Bad Gateway" {
		t.Errorf("/readyz says %q", part)
	}
	shows := func(metric, value string) {
		t.Helper()
		if row := metric + `{destination="archive",kind="webhook"} ` + value + "\n"; !strings.Contains(w.scrape(), row) {
			t.Errorf("the metrics lack %s", row)
		}
	}
	shows("yett_checkpoint_destination_failing", "1")
	shows("yett_checkpoint_destination_differs", "0")
	text, err := w.g.signer.Checkpoint(1<<20, [32]byte{1})
	if err != nil {
		t.Fatal(err)
	}
	says.Store(&text)
	w.g.checkpoints.Start()
	w.until("/readyz says that the end of the log is missing", func() bool {
		return strings.Contains(w.part("checkpoints"), "webhook archive: it was signed when the log had 1048576 records")
	})
	shows("yett_checkpoint_destination_failing", "1")
	shows("yett_checkpoint_destination_differs", "1")
	nothing := ""
	says.Store(&nothing)
	w.until("it takes checkpoints", func() bool { return w.part("checkpoints") == "" })
	shows("yett_checkpoint_destination_age_seconds", "0")
	shows("yett_checkpoint_destination_failing", "0")
}

// TestAuthoritiesOfACheckpointWebhook are read when a configuration is checked.
func TestAuthoritiesOfACheckpointWebhook(t *testing.T) {
	cfg := config.Default()
	cfg.Audit.Checkpoints.Webhooks = []config.CheckpointWebhook{{Name: "archive", CA: "nowhere.pem"}}
	err := Check(context.Background(), cfg)
	if err == nil || !strings.Contains(err.Error(), "audit.checkpoints.webhooks[0].ca: cannot read nowhere.pem") {
		t.Errorf("got %v", err)
	}
	cfg.Audit.Checkpoints = config.Checkpoints{Witnesses: []config.CheckpointWitness{{CA: "nowhere.pem"}}}
	err = Check(context.Background(), cfg)
	if err == nil || !strings.Contains(err.Error(), "audit.checkpoints.witnesses[0].ca: cannot read nowhere.pem") {
		t.Errorf("got %v", err)
	}
}

// TestCheckpointsForSubscribers: what is signed is the log's own, and known to log/head.
func TestCheckpointsForSubscribers(t *testing.T) {
	w := newWorld(t, func(w *world) { w.write("", "", "") })
	size := w.g.store.Seq()
	root, err := w.g.store.Root(size)
	if err != nil {
		t.Fatal(err)
	}
	keys, err := log.ParseKeys(w.g.signer.PublicKey())
	if err != nil {
		t.Fatal(err)
	}
	text := w.g.checkpoint(w.g.store.ID(), size, root)
	if c, err := log.OpenCheckpoint(text, keys); err != nil || c.Size != size || c.Root != root {
		t.Errorf("%q: %v", text, err)
	}
	if other, later := w.g.checkpoint("sto_other", size, root), w.g.checkpoint(w.g.store.ID(), size+1000, root); other !=
		"" || later != "" {
		t.Errorf("it signs %q and %q", other, later)
	}
}
