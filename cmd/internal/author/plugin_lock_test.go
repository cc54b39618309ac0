package author

import (
	"fmt"
	"strings"
	"testing"

	"github.com/yett-dev/yett/config"
)

// TestLockSaysWhenASignerChanged: another author of a file, and a plugin that is pinned no more, are told beside the
// digests, which change with every build.
func TestLockSaysWhenASignerChanged(t *testing.T) {
	lock := func(signers ...string) config.Lock {
		l := config.Lock{Version: 1, Plugins: map[string]config.LockedFile{}}
		for i, s := range signers {
			l.Plugins[fmt.Sprintf("p%d", i)] = config.LockedFile{Wasm: "/m.wasm", Digest: "sha256:" + strings.Repeat("0", 64),
				Signer: s}
		}
		return l
	}
	got := lockChanges(lock("acme", "acme", "", "acme").Encode("/"), lock("acme", "evil", "acme", "", "new"))
	want := []string{"warning: plugins.p1: was signed by acme, and is signed by evil now",
		"plugins.p2: is signed by acme now, and was signed by nobody",
		"warning: plugins.p3: was signed by acme, and nobody has signed it now"}
	if strings.Join(got, "\n") != strings.Join(want, "\n") {
		t.Errorf("got\n%s", strings.Join(got, "\n"))
	}
	got = lockChanges(lock("acme", "acme", "acme").Encode("/"), lock("acme"))
	want = []string{"warning: plugins.p1: is not pinned any more: this configuration has no file under that name",
		"warning: plugins.p2: is not pinned any more: this configuration has no file under that name"}
	if strings.Join(got, "\n") != strings.Join(want, "\n") {
		t.Errorf("got\n%s", strings.Join(got, "\n"))
	}
	if got := lockChanges(nil, lock("acme")); len(got) != 0 {
		t.Errorf("the first lock: %v", got)
	}
	if got := lockChanges([]byte("version: 7\n"), lock("acme")); len(got) != 1 ||
		!strings.Contains(got[0], "cannot be read") {
		t.Errorf("a lock that is none: %v", got)
	}
}
