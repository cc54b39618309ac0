package main

import (
	"fmt"
	"testing"

	"github.com/yett-dev/yett/sdk/plugin/plugintest"
)

// The plugin as the host sees it: its example settings run, and a batch is acknowledged.
func TestOverGRPC(t *testing.T) {
	c := plugintest.Load(t, newPlugin())
	info := c.Info()
	if err := c.Validate(info.ExampleConfig, nil); err != nil {
		t.Fatal(err)
	}
	if err := c.Configure(info.ExampleConfig, nil); err != nil {
		t.Fatal(err)
	}
	log := plugintest.Log{StoreID: "sto_A"}
	if acked, err := c.Consume(t.Context(), log.Append(`{"seq":1}`, `{"seq":2}`)); err != nil || acked != 2 {
		t.Fatal(fmt.Sprint(acked, " ", err))
	}
}
