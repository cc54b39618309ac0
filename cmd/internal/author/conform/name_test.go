package conform

import (
	"strings"
	"testing"
)

// TestErrorsNameTheFile: whoever tries a plugin reads its name in errors.
func TestErrorsNameTheFile(t *testing.T) {
	_, err := Dial(t.Context(), Options{Path: "/bin/true"})
	if err == nil || !strings.HasPrefix(err.Error(), "plugin true: ") {
		t.Error(err)
	}
}
