package core

import (
	"context"
	"errors"
	"testing"

	"github.com/yett-dev/yett/config"
	"github.com/yett-dev/yett/core/loaded"
	"github.com/yett-dev/yett/core/prochost"
	"github.com/yett-dev/yett/core/store"
	"github.com/yett-dev/yett/core/subscribers"
	"github.com/yett-dev/yett/sdk"
)

// What cannot be resumed or skipped is refused with the member that is wrong, and never quietly done in part.
func TestResumeRefusals(t *testing.T) {
	g := &Gateway{feeds: &subscribers.Set{}}
	gen := &loaded.Generation{Config: &config.Config{},
		Plugins: map[string]*loaded.Plugin{"secrets": {Name: "secrets"},
			"entitle": {Name: "entitle", Process: &prochost.Plugin{}}}}
	g.gen.Store(gen)
	for _, c := range []struct {
		name  string
		skip  bool
		field string
	}{
		{"nobody", false, "name"},
		{"secrets", false, "name"},
		{"secrets", true, "name"},
		{"entitle", true, "skip"},
	} {
		err := g.ResumePlugin(context.Background(), store.Who{}, c.name, c.skip)
		var e *sdk.Error
		if !errors.As(err, &e) || e.Code != sdk.CodeInvalidField || e.Field != c.field {
			t.Errorf("%s, skip %v: %v", c.name, c.skip, err)
		}
	}
}
