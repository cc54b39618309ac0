package main

import (
	"fmt"
	"os"
	"testing"

	"github.com/yett-dev/yett/sdk/plugin/plugintest"
)

// The plugin as the host sees it: its example settings run, and a record is on disk once it is acknowledged.
func TestOverGRPC(t *testing.T) {
	t.Chdir(t.TempDir())
	c := plugintest.Load(t, newPlugin())
	info := c.Info()
	if err := c.Validate(info.ExampleConfig, nil); err != nil {
		t.Fatal(err)
	}
	if entries, err := os.ReadDir("."); err != nil || len(entries) > 0 {
		t.Fatalf("Validate made %v, %v", entries, err)
	}
	if err := c.Configure(info.ExampleConfig, nil); err != nil {
		t.Fatal(err)
	}
	log := plugintest.Log{StoreID: "sto_A"}
	if acked, err := c.Consume(t.Context(), log.Append(`{"seq":1,"store_id":"sto_A"}`,
		`{"seq":2,"store_id":"sto_A","x":1.50}`)); err != nil || acked != 2 {
		t.Fatal(fmt.Sprint(acked, " ", err))
	}
	if text, err := os.ReadFile("audit.jsonl"); err != nil ||
		string(text) != "{\"seq\":1,\"store_id\":\"sto_A\"}\n{\"seq\":2,\"store_id\":\"sto_A\",\"x\":1.50}\n" {
		t.Fatalf("%q, %v", text, err)
	}
}
