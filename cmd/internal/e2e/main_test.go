package e2e

import (
	"os"
	"testing"
	"time"
)

func TestMain(m *testing.M) { os.Exit(Run(m)) }

// patience bounds every wait of these tests; a hang fails the test instead of stopping it.
const patience = 60 * time.Second
