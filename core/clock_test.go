package core

import (
	"context"
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/yett-dev/yett/core/feed"
	"github.com/yett-dev/yett/core/store"
)

// A step of the clock before a start is recorded and shown, and no record goes.
func TestClockInDoubtIsShown(t *testing.T) {
	g, _ := benchGatewayOf(t, "version: 1\nserver: {metrics: off}\nconsole: {enabled: false}\nsocket: {enabled: "+
		"false}\naudit: {retention: {max_age: 90d}}\nchains: {authorize: {steps: [{name: house, rules: [rules.yaml]}]}}\n")
	known, err := json.Marshal(feed.Clock{At: time.Now().Add(-100 * 24 * time.Hour), Boot: "another boot"})
	if err == nil {
		err = g.store.Commit(context.Background(), &store.KeepClock{Known: known})
	}
	if err != nil {
		t.Fatal(err)
	}
	g.feeds.Apply(g.gen.Load())
	detail := ""
	for end := time.Now().Add(30 * time.Second); detail == "" && time.Now().Before(end); {
		for _, p := range g.ready() {
			if p.Name == "clock" {
				detail = p.Detail
			}
		}
	}
	if !strings.Contains(detail, "2400h0m0s ahead of the machine's uptime") {
		t.Errorf("/readyz says %q", detail)
	}
	found := false
	for end := time.Now().Add(30 * time.Second); !found && time.Now().Before(end); {
		if err := g.store.Records(1, func(_ uint64, rec []byte) error {
			found = found || strings.Contains(string(rec), `"type":"clock_in_doubt"`)
			return nil
		}); err != nil {
			t.Fatal(err)
		}
	}
	if !found {
		t.Error("no record says so")
	}
}
