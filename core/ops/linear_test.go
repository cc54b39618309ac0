package ops_test

import (
	"sync/atomic"
	"testing"

	"github.com/anishathalye/porcupine"
)

// event is one operation of a history: what was asked, what was answered, and when on a clock of which no two readings
// are equal.
type event struct {
	call, ret int64
	in, out   string
}

// ticker is that clock.
type ticker struct{ n atomic.Int64 }

func (t *ticker) now() int64 { return t.n.Add(1) }

// model is a sequential specification: whether that answer is right in that state, and the state after it.
type model func(state string, e event) (next string, ok bool)

// linearizable reports whether the history has an order that the model accepts and in which nothing comes before what
// had ended when it began.
func linearizable(m model, state string, history []event) bool {
	ops := make([]porcupine.Operation, len(history))
	for i, e := range history {
		ops[i] = porcupine.Operation{Input: e, Call: e.call, Return: e.ret}
	}
	return porcupine.CheckOperations(porcupine.Model{
		Init: func() any { return state },
		Step: func(state, in, _ any) (bool, any) {
			next, ok := m(state.(string), in.(event))
			return ok, next
		},
	}, ops)
}

// register is a model to try the search with: writes always work, reads give the last write.
func register(state string, e event) (string, bool) {
	if e.in == "read" {
		return state, e.out == state
	}
	return e.in, true
}

func TestLinearizable(t *testing.T) {
	for _, c := range []struct {
		name    string
		history []event
		want    bool
	}{
		{"nothing", nil, true},
		{"one after the other", []event{{1, 2, "a", ""}, {3, 4, "read", "a"}}, true},
		{"a stale read", []event{{1, 2, "a", ""}, {3, 4, "b", ""}, {5, 6, "read", "a"}}, false},
		{"a read beside the write", []event{{1, 2, "a", ""}, {3, 6, "b", ""}, {4, 5, "read", "a"}}, true},
		{"new, then old again", []event{{1, 2, "a", ""}, {3, 10, "b", ""}, {4, 5, "read", "b"}, {6, 7, "read", "a"}}, false},
		{"old, then new", []event{{1, 2, "a", ""}, {3, 10, "b", ""}, {4, 5, "read", "a"}, {6, 7, "read", "b"}}, true},
	} {
		if got := linearizable(register, "", c.history); got != c.want {
			t.Errorf("%s: got %v, want %v", c.name, got, c.want)
		}
	}
}
