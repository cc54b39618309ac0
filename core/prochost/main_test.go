package prochost

import (
	"crypto/sha256"
	"encoding/hex"
	"os"
	"sync"
	"testing"

	"github.com/yett-dev/yett/core/supervise"
	"go.uber.org/goleak"
)

// guestEnv makes this test binary the plugin that it names.
const guestEnv = "PROCHOST_GUEST"

func TestMain(m *testing.M) {
	supervise.Launch()
	if mode := os.Getenv(guestEnv); mode != "" {
		serveGuest(mode)
		return
	}
	goleak.VerifyTestMain(m)
}

// self is this binary and its digest.
var self = sync.OnceValues(func() (path, digest string) {
	path, err := os.Executable()
	if err != nil {
		return "", ""
	}
	b, err := os.ReadFile(path)
	if err != nil {
		return "", ""
	}
	sum := sha256.Sum256(b)
	return path, "sha256:" + hex.EncodeToString(sum[:])
})
