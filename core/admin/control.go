package admin

import (
	"context"
	"net/http"
	"time"

	"github.com/yett-dev/yett/core/status"
	"github.com/yett-dev/yett/core/store"
	"github.com/yett-dev/yett/sdk"
)

// Control is what an operator does with the configuration and the plugins of a running server. Errors are *sdk.Error.
type Control interface {
	// Reload puts the configuration in force as its files are now, or leaves the old one and says why.
	Reload(ctx context.Context, who store.Who) (Reloaded, error)
	// Plugins lists all that are loaded, by name.
	Plugins() []status.Plugin
	// ResumePlugin lets a plugin start again that was given up, and a subscriber go on that was paused. With skip, the
	// record at which it is stuck is left out.
	ResumePlugin(ctx context.Context, who store.Who, name string, skip bool) error
	// ReplayPlugin puts a subscriber back to a record of the log.
	ReplayPlugin(ctx context.Context, who store.Who, name string, from uint64) error
	// ForgetPlugin removes the cursor of a subscriber that is not configured any more, and says which record that was.
	ForgetPlugin(ctx context.Context, who store.Who, name string) (seq uint64, err error)
}

// Reloaded says what a reload changed.
type Reloaded struct {
	Policy  string         `json:"policy_version"`
	Was     string         `json:"was"`
	Changes []ConfigChange `json:"changes"`
	Plugins []PluginChange `json:"plugins"` // all of the new and the old configuration, by name
}

// PluginChange is what a reload did with a plugin.
type PluginChange struct {
	Name   string `json:"name"`
	What   string `json:"what"`             // added, reloaded, kept or removed
	Digest string `json:"digest,omitempty"` // of the bytes that run now
	Was    string `json:"was,omitempty"`    // of those that ran before
	Why    string `json:"why,omitempty"`
	Stale  bool   `json:"stale,omitempty"` // it was kept, and its file holds something else
}

// ConfigChange is one value that differs. Secrets are not shown.
type ConfigChange struct {
	Key string `json:"key"`
	Old string `json:"old"`
	New string `json:"new"`
}

// Clock is what the store's clock says.
type Clock struct {
	Now     time.Time `json:"now"`                // the time as far as it is certain
	Wall    time.Time `json:"wall"`               // the wall clock, while it is in doubt; else now
	Ahead   string    `json:"ahead,omitempty"`    // by how much, as a duration
	HeldFor string    `json:"held_for,omitempty"` // since when, as a duration
}

func (s *Server) clock(w http.ResponseWriter, _ *http.Request) {
	t := s.set.Service.Times()
	out := Clock{Now: t.Now.UTC(), Wall: t.Late.UTC()}
	if by := t.Doubt(); by > 0 {
		out.Ahead, out.HeldFor = by.Round(time.Second).String(), t.Held.Round(time.Second).String()
	}
	answer(w, out, nil)
}

func (s *Server) controls(mux *http.ServeMux) {
	mux.HandleFunc("GET /clock", s.clock)
	mux.HandleFunc("POST /clock/confirm", func(w http.ResponseWriter, r *http.Request) {
		was, err := s.set.Service.BelieveClock(r.Context(), who(r))
		answer(w, map[string]any{"ok": true, "was_ahead": was.Round(time.Second).String()}, err)
	})
	mux.HandleFunc("POST /reload", func(w http.ResponseWriter, r *http.Request) {
		// Whoever asked may hang up: a reload that was half done would leave it to chance what is in force.
		out, err := s.set.Control.Reload(context.WithoutCancel(r.Context()), who(r))
		answer(w, out, err)
	})
	mux.HandleFunc("GET /plugins", func(w http.ResponseWriter, r *http.Request) {
		rows := s.set.Control.Plugins()
		if rows == nil {
			rows = []status.Plugin{}
		}
		answer(w, rows, nil)
	})
	mux.HandleFunc("POST /plugins/{name}/resume", func(w http.ResponseWriter, r *http.Request) {
		var in ResumeRequest
		err := read(r, &in)
		if err == nil {
			err = s.set.Control.ResumePlugin(r.Context(), who(r), r.PathValue("name"), in.Skip)
		}
		answer(w, map[string]any{"ok": true, "name": r.PathValue("name")}, err)
	})
	mux.HandleFunc("POST /plugins/{name}/replay", func(w http.ResponseWriter, r *http.Request) {
		var in ReplayRequest
		err := read(r, &in)
		if err == nil && in.From == 0 {
			err = sdk.FieldErrf(sdk.CodeMissingField, "from",
				"from is required: the number of the first record to be given again")
		}
		if err == nil {
			err = s.set.Control.ReplayPlugin(r.Context(), who(r), r.PathValue("name"), in.From)
		}
		answer(w, map[string]any{"ok": true, "name": r.PathValue("name"), "from": in.From}, err)
	})
	mux.HandleFunc("POST /plugins/{name}/forget", func(w http.ResponseWriter, r *http.Request) {
		seq, err := s.set.Control.ForgetPlugin(r.Context(), who(r), r.PathValue("name"))
		answer(w, Forgotten{Name: r.PathValue("name"), Seq: seq}, err)
	})
}

// ResumeRequest asks for a plugin to go on.
type ResumeRequest struct {
	Skip bool `json:"skip,omitempty"`
}

// ReplayRequest asks for records to be given again.
type ReplayRequest struct {
	From uint64 `json:"from"`
}

// Forgotten is a subscriber whose cursor was removed, and the record that it had come to.
type Forgotten struct {
	Name string `json:"name"`
	Seq  uint64 `json:"seq"`
}
