package ops

import (
	"fmt"
	"os"
	"testing"

	"github.com/yett-dev/yett/core/testkit"
)

func TestMain(m *testing.M) {
	if err := testkit.InMemory(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	os.Exit(m.Run())
}
