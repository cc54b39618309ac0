package console

import (
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/yett-dev/yett/core/status"
	"github.com/yett-dev/yett/sdk"
)

// Config is the configuration in force.
type Config struct {
	Policy   string    // its version
	Reloaded time.Time // when a reload ended last; zero: never
	Error    string    // why that one was refused; "" if it went well
}

// maxError bounds what is shown of an error, bytes.
const maxError = 16 << 10

// pluginsPage lists the plugins.
type pluginsPage struct {
	Rows   []status.Plugin
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
func (c *Console) plugin(w http.ResponseWriter, r *http.Request, v *visit) *status.Plugin {
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
	case !p.NeedsResume():
		c.refuse(w, v, http.StatusConflict, "Nothing to resume", "This plugin is "+p.State+": there is nothing to resume.")
	default:
		c.renderResume(w, v, http.StatusOK, p, nil)
	}
}

func (c *Console) renderResume(w http.ResponseWriter, v *visit, code int, p *status.Plugin, err error) {
	out := view{Title: "Resume a plugin", Visit: v, Page: p}
	if err != nil {
		code, out.Error = c.statusOf(err)
		out.Field = fieldOf(err)
	}
	c.render(w, code, "resume", out)
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
func skipOf(f form, p *status.Plugin) (bool, error) {
	text, err := f.one("skip")
	if err != nil || text == "" {
		return false, err
	}
	n, err := strconv.ParseUint(text, 10, 64)
	switch {
	case err != nil || n == 0:
		return false, sdk.FieldErrf(sdk.CodeInvalidField, "skip",
			"The form does not say which record is left out. Nothing was done.")
	case p.Subscriber == nil || p.Subscriber.StuckAt != n:
		return false, sdk.FieldErrf(sdk.CodeConflict, "skip",
			"The plugin is not stuck at record %d any more. Nothing was done; look at it as it is now.", n)
	}
	return true, nil
}
