package author

import (
	"errors"
	"reflect"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/yett-dev/yett/cmd/internal/author/kit"
	"github.com/yett-dev/yett/config"
	"github.com/yett-dev/yett/core/wasm/host"
)

// limitTag is what the configuration says about a limit of a plugin.
func limitTag(t *testing.T, field, tag string) string {
	t.Helper()
	f, ok := reflect.TypeFor[config.PluginLimits]().FieldByName(field)
	if !ok || f.Tag.Get(tag) == "" {
		t.Fatalf("limits have no %s with a %s", field, tag)
	}
	return f.Tag.Get(tag)
}

// TestAuthorsHaveTheGatewaysBudget: what an author's commands allow a call is what a gateway allows it unless told
// otherwise.
func TestAuthorsHaveTheGatewaysBudget(t *testing.T) {
	timeout, err := time.ParseDuration(limitTag(t, "Timeout", "default"))
	if err != nil {
		t.Fatal(err)
	}
	if want := timeout.Milliseconds() * host.FuelPerMillisecond; want != kit.DefaultFuel {
		t.Errorf("an author has %d units, a gateway gives %d", kit.DefaultFuel, want)
	}
	if least, most := limitTag(t, "Fuel", "min"), limitTag(t, "Fuel", "max"); least != strconv.Itoa(minFuel) ||
		most != strconv.Itoa(maxFuel) {
		t.Errorf("--fuel takes %d to %d, limits.fuel %s to %s", minFuel, maxFuel, least, most)
	}
	fuel, ok := reflect.TypeFor[config.PluginLimits]().FieldByName("Fuel")
	if !ok || fuel.Tag.Get("default") != "" {
		t.Errorf("limits.fuel has a default of its own: %s", fuel.Tag)
	}
}

// TestVectorsHelpIsTrue reads the file that the help of scanner test gives as the program does.
func TestVectorsHelpIsTrue(t *testing.T) {
	_, rest, ok := strings.Cut(vectorsHelp, "\n\n")
	example, _, more := strings.Cut(rest, "\n\n")
	if !ok || !more {
		t.Fatal("the help has no example")
	}
	v, err := kit.ParseVectors("help", []byte(example))
	if err != nil || len(v.List) < 5 {
		t.Errorf("%d vectors: %v", len(v.List), err)
	}
	var bad *kit.VectorError
	if _, err := kit.ParseVectors("help", []byte(strings.Replace(example, "name:", "nam:", 1))); !errors.As(err, &bad) {
		t.Errorf("a mistake in it is not seen: %v", err)
	}
}
