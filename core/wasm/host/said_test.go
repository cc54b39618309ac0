package host

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/yett-dev/yett/core/chain"
	"github.com/yett-dev/yett/sdk/abi"
)

// A guest may put what it was asked about where a name belongs. What is no name is quoted nowhere: cut, it could not be
// masked.
func TestErrorsQuoteNoTextInPlaceOfAName(t *testing.T) {
	secret := "tok" + "_" + strings.Repeat("k9", 30)
	call := &chain.Call{AgentID: secret}
	for name, body := range map[string][]byte{
		"code":               decision(abi.EffectDeny, bufferAt, 100, 0, 0, 0),
		"code of abstaining": decision(abi.EffectAbstain, bufferAt+20, 70, 0, 0, 0),
		"short code":         decision(abi.EffectDeny, bufferAt+20, 20, 0, 0, 0),
	} {
		m := load(t, guest{check: cat(body)}, nil)
		if _, err := m.Check(context.Background(), call); !errors.Is(err, ErrDecision) ||
			strings.Contains(err.Error(), "k9k9") || !strings.Contains(err.Error(), " bytes") {
			t.Errorf("%s: %v", name, err)
		}
	}
	e := soundEmission
	e.kind, e.kindLen = bufferAt, 60
	m := load(t, guest{scan: e.code()}, nil)
	if _, err := scan(m, secret); !errors.Is(err, ErrKind) || strings.Contains(err.Error(), "k9k9") ||
		!strings.Contains(err.Error(), " bytes") {
		t.Errorf("kind: %v", err)
	}
}

// What a guest says in an error comes whole as far as masking needs it, also out of a worker, and what does not print
// is an escape.
func TestErrorTextsAreHeardWhole(t *testing.T) {
	token := "tok" + "_" + strings.Repeat("k9", 16)
	for _, at := range []int{0, 470, 500, 511, 1000} {
		said := strings.Repeat("y", at) + token + "\n\x1b" + strings.Repeat("z", 3*chain.HeardMost)
		m := load(t, guest{check: cat(host("put", i32(0), i32(bufferAt), get(0)), drop, i32(64))}, nil)
		_, err := m.Check(context.Background(), &chain.Call{AgentID: said})
		var se *StatusError
		if !errors.As(err, &se) || !strings.Contains(se.Text, token) || len(se.Text) > chain.HeardMost {
			t.Fatalf("%d bytes before: %.700v", at, err)
		}
		f := &fields{b: appendFault(nil, err)}
		got := f.fault("mod")
		if f.end() != nil || got.Error() != err.Error() {
			t.Errorf("%d bytes before, from a worker: %.700v, %v", at, got, f.end())
		}
	}
}
