package console

import (
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/yett-dev/yett/sdk"
)

// Plugin is one plugin or module as it is now.
type Plugin struct {
	Name, Kind string
	State      string // ready, down, or what its supervisor says
	Why        string // why it is so; "" if there is nothing to say
	Version    string // "" until it has said
	Digest     string // of what was checked; "" for one that somebody else starts
	Open       string // what the kernel does not take from its processes; "" if they are confined, or it has none of ours
	Process    bool   // it can be given up, and resumed
	Breaker    string // closed, open, half-open; "" without one
	Calls      uint64
	Errors     uint64 // of the calls
	Starts     uint64
	Replicas   []Replica
	Log        *Subscriber // nil: it is given no log
}

// Replica is one process of a plugin.
type Replica struct {
	State, Why string
	Pid        int // 0 without a process
	Crashes    int
}

// Subscriber is how far a plugin has come in the audit log.
type Subscriber struct {
	State      string // paused, or what its pump says
	Why        string
	Cursor     uint64
	LagRecords uint64
	LagBytes   uint64
	Lag        time.Duration
	StuckAt    uint64 // the record that failed, or was on its way when the stream ended last; 0: none
}

// Paused reports whether it waits for an operator.
func (s *Subscriber) Paused() bool { return s.State == "paused" }

// Config is the configuration in force.
type Config struct {
	Policy   string    // its version
	Reloaded time.Time // when a reload ended last; zero: never
	Error    string    // why that one was refused; "" if it went well
}

// maxError bounds what is shown of an error, bytes.
const maxError = 16 << 10

// Needs reports whether there is something that resuming it changes.
func (p *Plugin) Needs() bool {
	if !p.Process {
		return false
	}
	down := slices.ContainsFunc(p.Replicas, func(r Replica) bool { return r.State != "ready" })
	return down || p.State != "ready" || p.Breaker == "open" || p.Log != nil && (p.Log.Paused() || p.Log.StuckAt > 0)
}

// Ready reports whether it takes calls.
func (p *Plugin) Ready() bool { return p.State == "ready" }

// pluginsPage lists the plugins.
type pluginsPage struct {
	Rows   []Plugin
	Config Config
}

func (c *Console) listPlugins(w http.ResponseWriter, _ *http.Request, v *visit) {
	p := pluginsPage{Rows: c.set.Plugins.Plugins(), Config: c.set.Plugins.Config()}
	if e := p.Config.Error; len(e) > maxError {
		p.Config.Error = strings.ToValidUTF8(e[:maxError], "") + fmt.Sprintf("… (%d bytes more)", len(e)-maxError)
	}
	c.render(w, http.StatusOK, "plugins", view{Title: "Plugins", Visit: v, Page: p})
}

// plugin is the one that the address names, or nil when the answer is written.
func (c *Console) plugin(w http.ResponseWriter, r *http.Request, v *visit) *Plugin {
	for _, p := range c.set.Plugins.Plugins() {
		if p.Name == r.PathValue("name") {
			return &p
		}
	}
	c.refuse(w, v, http.StatusNotFound, "No such plugin", "No plugin with that name is loaded.")
	return nil
}

func (c *Console) askResume(w http.ResponseWriter, r *http.Request, v *visit) {
	p := c.plugin(w, r, v)
	switch {
	case p == nil:
	case !p.Needs():
		c.refuse(w, v, http.StatusConflict, "Nothing to resume", "This plugin is "+p.State+": there is nothing to resume.")
	default:
		c.renderResume(w, v, http.StatusOK, p, nil)
	}
}

func (c *Console) renderResume(w http.ResponseWriter, v *visit, status int, p *Plugin, err error) {
	out := view{Title: "Resume a plugin", Visit: v, Page: p}
	if err != nil {
		status, out.Error = c.statusOf(err)
		out.Field = fieldOf(err)
	}
	c.render(w, status, "resume", out)
}

func (c *Console) resumePlugin(w http.ResponseWriter, r *http.Request, v *visit) {
	f, err := readForm(r)
	if err != nil {
		c.refuseError(w, v, err)
		return
	}
	if v = c.confirm(w, r, v, f); v == nil {
		return
	}
	p := c.plugin(w, r, v) // as it is now: looking at a password takes a while
	if p == nil {
		return
	}
	skip, err := skipOf(f, p)
	if err == nil {
		err = c.set.Plugins.ResumePlugin(r.Context(), v.by, p.Name, skip)
	}
	if err != nil {
		c.renderResume(w, v, http.StatusOK, p, err)
		return
	}
	http.Redirect(w, r, "/plugins", http.StatusSeeOther)
}

// skipOf says whether the record is left out at which the subscriber is stuck: that one which the form showed, no
// other.
func skipOf(f form, p *Plugin) (bool, error) {
	text, err := f.one("skip")
	if err != nil || text == "" {
		return false, err
	}
	n, err := strconv.ParseUint(text, 10, 64)
	switch {
	case err != nil || n == 0:
		return false, sdk.FieldErrf(sdk.CodeInvalidField, "skip",
			"The form does not say which record is left out. Nothing was done.")
	case p.Log == nil || p.Log.StuckAt != n:
		return false, sdk.FieldErrf(sdk.CodeConflict, "skip",
			"The plugin is not stuck at record %d any more. Nothing was done; look at it as it is now.", n)
	}
	return true, nil
}
