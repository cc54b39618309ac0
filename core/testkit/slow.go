package testkit

import (
	"os"
	"testing"
)

// Slow skips a test that takes long, unless YETT_SLOW or YETT_FULL is set: .ci/run sets the first, so nothing goes in
// that was not run. Without them go test ./... takes some six minutes on two processors. The reason says what takes the
// time.
func Slow(t testing.TB, reason string) {
	t.Helper()
	if os.Getenv("YETT_SLOW") == "" && os.Getenv("YETT_FULL") == "" {
		t.Skipf("%s: YETT_SLOW=1 runs it, as .ci/run does", reason)
	}
}

// Every says whether a case of a table runs: all with YETT_SLOW or YETT_FULL, else one of n, the first among them. Use
// it for tables whose cases are alike and wait long.
func Every(i, n int) bool {
	return i%n == 0 || os.Getenv("YETT_SLOW") != "" || os.Getenv("YETT_FULL") != ""
}
