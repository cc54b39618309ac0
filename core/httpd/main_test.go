package httpd

import (
	"errors"
	"fmt"
	"os"
	"testing"

	"github.com/yett-dev/yett/core/testkit"
)

func TestMain(m *testing.M) {
	if err := errors.Join(testkit.InMemory(), testkit.Beside(8)); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	os.Exit(m.Run())
}
