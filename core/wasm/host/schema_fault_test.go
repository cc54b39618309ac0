package host

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
)

// oddSchema is what the check of settings says of a schema that no settings can fit.
type oddSchema struct{}

func (oddSchema) Error() string       { return "config_schema is odd" }
func (oddSchema) SchemaPlace() string { return "#/x" }

// TestFaultsOfTheSchemaAreNotOfTheSettings: whoever is told to give settings would look in vain.
func TestFaultsOfTheSchemaAreNotOfTheSettings(t *testing.T) {
	check := func(map[string]any, json.RawMessage) error { return fmt.Errorf("%w", oddSchema{}) }
	g := guest{scan: i32(0), meta: strings.Replace(testMeta, `"needs"`, `"config_schema":{"type":"object"},"needs"`, 1)}

	tr := newTrial()
	tr.CheckConfig = check
	v, err := tr.admit(specOf(g))
	if !errors.Is(err, ErrNotAdmitted) || v.Reason != "config_schema is odd" || v.BadConfig {
		t.Errorf("%+v, %v", v, err)
	}
	h := newHost(t, Options{CheckConfig: check})
	_, inside := h.Load(context.Background(), specOf(g))
	_, beside := h.spawn(context.Background(), specOf(g), tuning(nil))
	for _, err := range []error{inside, beside} {
		if err == nil || IsConfig(err) || !strings.HasSuffix(err.Error(), ": config_schema is odd") ||
			strings.Contains(err.Error(), "config: ") {
			t.Errorf("%v, of the settings: %v", err, IsConfig(err))
		}
	}
	if fmt.Sprint(inside) != fmt.Sprint(beside) {
		t.Errorf("Load says %v, Spawn %v", inside, beside)
	}
}
