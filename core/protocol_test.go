package core

import (
	"maps"
	"slices"
	"testing"

	"github.com/yett-dev/yett/sdk"
	"github.com/yett-dev/yett/sdk/wire"
)

// registryRow is one error code as errors.json has it.
type registryRow struct {
	Code   sdk.Code
	Status int
	RPC    int
}

// rpcNumber is the JSON-RPC error code of one of ours, as PROTOCOL.md promises it. Vectors and examples compare it with
// what the socket sends.
func rpcNumber(c sdk.Code) int {
	switch c {
	case sdk.CodeInvalidJSON:
		return -32700
	case sdk.CodeBadRequest:
		return -32600
	case sdk.CodeUnknownOperation:
		return -32601
	case sdk.CodeInvalidField, sdk.CodeMissingField:
		return -32602
	}
	return -32000
}

// TestVectors runs sdk/testdata/vectors against a gateway, each file and each way of sending it on a fresh one.
func TestVectors(t *testing.T) {
	cache := moduleCache(t)
	files := readVectors(t)
	for _, name := range slices.Sorted(maps.Keys(files)) {
		for _, way := range []string{wayHTTP, wayFlat, wayRPC} {
			cases := files[name].sentBy(way)
			if len(cases) == 0 {
				continue
			}
			s := newStage(t, cache)
			for _, c := range cases {
				t.Run(name+"/"+way+"/"+c.Name, func(t *testing.T) { s.play(t, files[name], c, way) })
			}
			s.stop()
		}
	}
}

// TestVectorErrors holds errors.json to the registry: each code has its row, and is either reached by a case of some file
// or listed with the reason why none can.
func TestVectorErrors(t *testing.T) {
	files := readVectors(t)
	f := files["errors.json"]
	reached := map[string]bool{}
	for _, file := range files {
		for _, c := range file.Cases {
			for _, st := range c.Steps {
				reached[st.Want.Code] = true
				for _, l := range st.Want.Lines {
					reached[l.Code] = true
				}
			}
		}
	}
	delete(reached, "")
	rows := map[sdk.Code]bool{}
	for _, r := range f.Registry {
		rows[r.Code] = true
		if want, ok := wire.Statuses[r.Code]; !ok || want.HTTP != r.Status || rpcNumber(r.Code) != r.RPC {
			t.Errorf("errors.json: registry: %+v, the registry of sdk/wire has %d and %d (0 is none)", r, want.HTTP, rpcNumber(r.Code))
		}
	}
	for code := range wire.Statuses {
		_, excused := f.Unreached[string(code)]
		switch {
		case !rows[code]:
			t.Errorf("errors.json: registry lacks %s", code)
		case reached[string(code)] && excused:
			t.Errorf("errors.json: %s is said to be unreached, but a case reaches it", code)
		case !reached[string(code)] && !excused:
			t.Errorf("no vector reaches %s: add a case, or say in errors.json why there cannot be one", code)
		}
	}
	for code := range reached {
		if _, ok := wire.Statuses[sdk.Code(code)]; !ok {
			t.Errorf("a vector wants %q, which is no code", code)
		}
	}
}
