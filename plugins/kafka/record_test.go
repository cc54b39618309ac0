package main

import (
	"bytes"
	"math"
	"testing"

	"github.com/yett-dev/yett/sdk/plugin"
)

// FuzzRecord wants every line to go out as it is, under a key that is not empty.
func FuzzRecord(f *testing.F) {
	f.Add([]byte(`{"type":"decision","agent_id":"a"}`), "agent_id")
	f.Add([]byte(`{"type":["decision"],"agent_id":{}}`), "agent_id")
	f.Add([]byte("\xff{"), "store_id")
	f.Fuzz(func(t *testing.T, line []byte, key string) {
		o := &options{config: config{Key: key}}
		b := &plugin.Batch{StoreID: "sto_A"}
		r := o.record(b, &plugin.Record{Seq: math.MaxUint64, JSON: line})
		if !bytes.Equal(r.Value, line) || len(r.Key) == 0 || header(r, "yett-seq") != "18446744073709551615" ||
			weight(r) < len(line) {
			t.Fatalf("%q became %q with key %q", line, r.Value, r.Key)
		}
	})
}
