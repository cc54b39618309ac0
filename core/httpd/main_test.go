package httpd

import (
	"os"
	"testing"

	"github.com/yett-dev/yett/core/testkit"
)

func TestMain(m *testing.M) {
	testkit.Prepare(testkit.InMemory(), testkit.Beside(8))
	os.Exit(m.Run())
}
