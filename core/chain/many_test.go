package chain_test

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/yett-dev/yett/core/chain"
)

// A receipt for several texts has their bytes and times together, is prefiltered only if all are, and keeps the first
// failure. A text that the step does not concern changes nothing.
func TestReceiptsAdd(t *testing.T) {
	at := time.Unix(9, 0)
	ok := chain.Receipt{Outcome: "ok", Bytes: 2, Took: time.Second, Began: at}
	filtered := chain.Receipt{Outcome: "ok", Bytes: 3, Prefiltered: true}
	skipped := chain.Receipt{Outcome: "skipped"}
	first := chain.Receipt{Outcome: "timeout", Bytes: 4, Err: errors.New("first")}
	second := chain.Receipt{Outcome: "error", Bytes: 5, Err: errors.New("second")}
	for _, c := range []struct {
		want string
		all  []chain.Receipt
	}{
		{"ok 4 false 2s true <nil>", []chain.Receipt{ok, ok}},
		{"ok 5 false 1s true <nil>", []chain.Receipt{filtered, ok}},
		{"ok 5 false 1s true <nil>", []chain.Receipt{ok, filtered}},
		{"ok 6 true 0s false <nil>", []chain.Receipt{filtered, filtered}},
		{"ok 3 true 0s false <nil>", []chain.Receipt{filtered, skipped}},
		{"ok 3 true 0s false <nil>", []chain.Receipt{skipped, filtered}},
		{"skipped 0 false 0s false <nil>", []chain.Receipt{skipped, skipped}},
		{"timeout 11 false 1s true first", []chain.Receipt{ok, first, second}},
		{"error 7 false 1s true second", []chain.Receipt{second, skipped, ok}},
	} {
		sum := c.all[0]
		for i := range c.all[1:] {
			sum.Add(&c.all[i+1])
		}
		if got := fmt.Sprint(sum.Outcome, " ", sum.Bytes, " ", sum.Prefiltered, " ", sum.Took, " ", sum.Began == at, " ",
			sum.Err); got != c.want {
			t.Errorf("%s, want %s", got, c.want)
		}
	}
}
