package console

import (
	"net/http"
	"time"

	"github.com/yett-dev/yett/sdk"
)

// grace is one choice of how long an old key goes on beside the new one.
type grace struct {
	Value string
	Label string
	after time.Duration
}

var graces = []grace{
	{"now", "none: the old value stops at once", 0},
	{"1h", "1 hour", time.Hour},
	{"24h", "24 hours", 24 * time.Hour},
	{"7d", "7 days", 7 * 24 * time.Hour},
	{"30d", "30 days", 30 * 24 * time.Hour},
}

// changePage asks before a key is rolled or revoked.
type changePage struct {
	Key    keyRow
	Graces []grace
	Chosen string
}

// find is the key that the address names, or nil when the answer is written.
func (c *Console) find(w http.ResponseWriter, r *http.Request, v *visit) *keyRow {
	k := c.lookUp(r.PathValue("id"))
	if k == nil {
		c.refuse(w, v, http.StatusNotFound, "No such key", "There is no key with that id.")
	}
	return k
}

func (c *Console) lookUp(id string) *keyRow {
	for _, k := range c.set.Keys.Keys() {
		if k.ID == id {
			row := rowOf(k, c.set.Now())
			return &row
		}
	}
	return nil
}

func (c *Console) askRoll(w http.ResponseWriter, r *http.Request, v *visit) {
	k := c.find(w, r, v)
	if k == nil {
		return
	}
	if k.State != "live" {
		c.refuse(w, v, http.StatusConflict, "Nothing to roll",
			"This key is "+k.State+", so there is nothing to roll. Make a new key instead.")
		return
	}
	c.render(w, http.StatusOK, "roll", view{Title: "Roll a key", Visit: v,
		Page: changePage{Key: *k, Graces: graces, Chosen: "24h"}})
}

func (c *Console) rollKey(w http.ResponseWriter, r *http.Request, v *visit) {
	f, err := readForm(r)
	if err != nil {
		c.refuseError(w, v, err)
		return
	}
	k := c.find(w, r, v)
	if k == nil {
		return
	}
	if v = c.confirm(w, r, v, f); v == nil {
		return
	}
	after, err := graceOf(f)
	if err != nil {
		status, text := c.statusOf(err)
		c.render(w, status, "roll", view{Title: "Roll a key", Visit: v, Error: text, Field: "grace",
			Page: changePage{Key: *k, Graces: graces}})
		return
	}
	made, err := c.set.Keys.RollKey(r.Context(), k.ID, after, v.by)
	if err != nil {
		c.refuseError(w, v, err)
		return
	}
	if now := c.lookUp(k.ID); now != nil {
		k = now // with its end
	}
	c.showValue(w, v, made, k)
}

func graceOf(f form) (time.Duration, error) {
	chosen, err := f.one("grace")
	if err != nil {
		return 0, err
	}
	for _, g := range graces {
		if g.Value == chosen {
			return g.after, nil
		}
	}
	return 0, sdk.FieldErrf(sdk.CodeInvalidField, "grace",
		"Choose how long the old value goes on: now, 1h, 24h, 7d or 30d.")
}

func (c *Console) askRevoke(w http.ResponseWriter, r *http.Request, v *visit) {
	k := c.find(w, r, v)
	if k == nil {
		return
	}
	if k.State == "revoked" {
		c.refuse(w, v, http.StatusConflict, "Revoked already", "This key is revoked already, for ever.")
		return
	}
	c.render(w, http.StatusOK, "revoke", view{Title: "Revoke a key", Visit: v, Page: changePage{Key: *k}})
}

func (c *Console) revokeKey(w http.ResponseWriter, r *http.Request, v *visit) {
	f, err := readForm(r)
	if err != nil {
		c.refuseError(w, v, err)
		return
	}
	k := c.find(w, r, v)
	if k == nil {
		return
	}
	if v = c.confirm(w, r, v, f); v == nil {
		return
	}
	if err := c.set.Keys.RevokeKey(r.Context(), k.ID, v.by); err != nil {
		c.refuseError(w, v, err)
		return
	}
	http.Redirect(w, r, "/keys", http.StatusSeeOther)
}
