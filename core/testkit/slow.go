package testkit

import (
	"errors"
	"flag"
	"fmt"
	"os"
	"strconv"
	"testing"
)

// Slow skips a test that takes long, unless YETT_SLOW or YETT_FULL is set: .ci/run sets the first, so nothing goes in
// that was not run. Without them go test ./... takes some minutes on two processors. The reason says what takes the
// time.
func Slow(t testing.TB, reason string) {
	t.Helper()
	if os.Getenv("YETT_SLOW") == "" && os.Getenv("YETT_FULL") == "" {
		t.Skipf("%s: YETT_SLOW=1 runs it, as .ci/run does", reason)
	}
}

// Long skips a test that takes seconds with -short, unless YETT_SLOW or YETT_FULL is set, as for the races of .ci/run.
// The reason says what takes the time.
func Long(t testing.TB, reason string) {
	t.Helper()
	if Quick() {
		t.Skipf("%s: go test without -short runs it", reason)
	}
}

// Quick says whether tests should only take a moment: with -short, unless YETT_SLOW or YETT_FULL is set.
func Quick() bool {
	return testing.Short() && os.Getenv("YETT_SLOW") == "" && os.Getenv("YETT_FULL") == ""
}

// Rounds is how often a test repeats what it does, or how much it takes of it: n, or quick where it is Quick.
func Rounds(n, quick int) int {
	if Quick() {
		return quick
	}
	return n
}

// Every says whether a case of a table runs: all with YETT_SLOW or YETT_FULL, else one of n, the first among them, and
// one of 4n where it is Quick. Use it for tables whose cases are alike and wait long.
func Every(i, n int) bool {
	return i%Rounds(n, 4*n) == 0 || os.Getenv("YETT_SLOW") != "" || os.Getenv("YETT_FULL") != ""
}

// Prepare does what a TestMain needs before it runs the tests, and ends the process if one fails.
func Prepare(errs ...error) {
	if err := errors.Join(errs...); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// Beside has so many tests that call t.Parallel run at a time, also where there are fewer processors: they wait most of
// their time. TestMain calls it before it runs the tests; -parallel on the command line wins.
func Beside(n int) error {
	if err := flag.Set("test.parallel", strconv.Itoa(n)); err != nil {
		return fmt.Errorf("tests beside each other: %w", err)
	}
	return nil
}
