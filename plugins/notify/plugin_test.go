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
	var log plugintest.Log
	b := log.Append(`{"seq":1,"store_id":"test","type":"defer_created","decision_id":"dec_1","expires_at":"2100-01-01T00:00:00Z"}`, `{"seq":2}`)
	if acked, err := c.Consume(t.Context(), b); err != nil || acked != 2 {
		t.Fatal(fmt.Sprint(acked, " ", err))
	}
}
