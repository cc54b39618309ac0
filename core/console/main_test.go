package console

import (
	"os"
	"testing"

	"github.com/yett-dev/yett/core/testkit"
)

func TestMain(m *testing.M) {
	testkit.Prepare(testkit.InMemory())
	os.Exit(m.Run())
}
