package console

import (
	"errors"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/yett-dev/yett/core/ops"
	"github.com/yett-dev/yett/core/store"
	"github.com/yett-dev/yett/sdk"
)

// Limits that keep the list readable, and an answer small.
const (
	keysPerPage = 100
	mostPages   = 1_000_000
	agentsBytes = 1 << 10 // of one key's agents in the list
)

// keysPage is the list of keys and the form for a new one.
type keysPage struct {
	Rows       []keyRow
	Total      int
	Page       int
	Prev, Next int // 0: none
	Form       keyForm
	Open       bool // the form's further settings are shown
	Presets    []preset
	Scopes     []string
}

// keyRow is one key as it is now.
type keyRow struct {
	ID, Name, Environment, Note string
	Scopes, Agents              []string
	More                        int // agents that the list leaves out
	Explicit                    bool
	CreatedBy, RevokedBy        string
	Created, Used, Expires, End time.Time
	State                       string // live, grace, expired, revoked
}

// Ended reports whether the key is a tombstone or as good as one.
func (k keyRow) Ended() bool { return k.State == "revoked" || k.State == "expired" }

// shorten leaves out agents beyond agentsBytes.
func (k *keyRow) shorten() {
	size := 0
	for i, a := range k.Agents {
		if size += len(a); size > agentsBytes {
			k.Agents, k.More = k.Agents[:i], len(k.Agents)-i
			return
		}
	}
}

func rowOf(k *store.Key, now time.Time) keyRow {
	row := keyRow{ID: k.ID, Name: k.Name, Environment: k.Environment, Note: k.Note, Scopes: k.Scopes, Agents: k.Agents,
		CreatedBy: k.CreatedBy, Created: k.CreatedAt, Used: k.LastUsedAt(), Expires: k.ExpiresAt, State: "live",
		Explicit: k.Explicit}
	r := k.Revocation()
	if r != nil {
		row.End, row.RevokedBy = r.At, r.By
	}
	switch {
	case k.Revoked(now) != nil:
		row.State = "revoked"
	case k.Expired(now):
		row.State = "expired"
	case r != nil:
		row.State = "grace"
	}
	return row
}

// preset is one choice of what a key may do.
type preset struct{ Name, About string }

// presets are in the order in which people need them.
func presets() []preset {
	about := []preset{{"agent", "asks before it acts, has its outputs scanned"},
		{"approver", "answers what waits for a person"},
		{"auditor", "reads the audit log"}, {"operator", "approves, grants, stops and audits"}}
	for i, p := range about {
		about[i].About += " (" + sdk.Presets[p.Name].String() + ")"
	}
	return append(about, preset{"custom", "the scopes ticked below"})
}

func (c *Console) listKeys(w http.ResponseWriter, r *http.Request, v *visit) {
	page := 1
	if p := r.URL.Query().Get("page"); p != "" {
		n, err := strconv.Atoi(p)
		if err != nil || n < 1 || n > mostPages {
			c.refuse(w, v, http.StatusNotFound, "No such page", "Pages of the list are numbered from 1.")
			return
		}
		page = n
	}
	c.showKeys(w, v, http.StatusOK, page, keyForm{Preset: "agent"}, "", "")
}

// showKeys writes the list: live keys first, then those that have ended.
func (c *Console) showKeys(w http.ResponseWriter, v *visit, status, page int, f keyForm, text, field string) {
	now := c.set.Now()
	all := c.set.Keys.Keys()
	rows := make([]keyRow, 0, len(all))
	for _, k := range all {
		rows = append(rows, rowOf(k, now))
	}
	slices.SortStableFunc(rows, func(a, b keyRow) int {
		switch {
		case a.Ended() == b.Ended():
			return 0
		case a.Ended():
			return 1
		}
		return -1
	})
	p := keysPage{Total: len(rows), Page: page, Form: f, Open: f.further(), Presets: presets(),
		Scopes: sdk.AnyScope.Names()}
	from := min((page-1)*keysPerPage, len(rows))
	to := min(from+keysPerPage, len(rows))
	if page > 1 {
		p.Prev = page - 1
	}
	if to < len(rows) {
		p.Next = page + 1
	}
	p.Rows = rows[from:to]
	for i := range p.Rows {
		p.Rows[i].shorten()
	}
	c.render(w, status, "keys", view{Title: "API keys", Visit: v, Error: text, Field: field, Page: p})
}

// keyForm is the form for a new key as it was typed.
type keyForm struct {
	Name, Environment, Preset, Agents, LastDay, Note, Redeem string
	Scopes                                                   []string
}

// Ticked reports whether a scope is ticked.
func (f keyForm) Ticked(scope string) bool { return slices.Contains(f.Scopes, scope) }

func (f keyForm) further() bool {
	return f.Environment != "" || (f.Preset != "" && f.Preset != "agent") || f.Agents != "" || f.LastDay != "" ||
		f.Note != "" || f.Redeem != "" || len(f.Scopes) > 0
}

func readKeyForm(f form) (keyForm, error) {
	var k keyForm
	var errs []error
	for name, dst := range map[string]*string{"name": &k.Name, "environment": &k.Environment, "preset": &k.Preset,
		"agents": &k.Agents, "last_day": &k.LastDay, "note": &k.Note, "redeem": &k.Redeem} {
		var err error
		*dst, err = f.one(name)
		errs = append(errs, err)
	}
	k.Scopes = f["scopes"]
	return k, errors.Join(errs...)
}

// spec is the key that the form asks for.
func (f keyForm) spec() (ops.KeySpec, error) {
	spec := ops.KeySpec{Name: strings.TrimSpace(f.Name), Environment: strings.TrimSpace(f.Environment), Note: f.Note,
		Preset: f.Preset, Scopes: f.Scopes, Redeem: f.Redeem}
	if spec.Name == "" {
		return spec, sdk.FieldErrf(sdk.CodeMissingField, "name", "Give the key a name.")
	}
	switch {
	case f.Preset == "custom" && len(f.Scopes) == 0:
		return spec, sdk.FieldErrf(sdk.CodeInvalidField, "scopes", "Tick at least one scope, or choose one of the presets.")
	case f.Preset == "custom":
		spec.Preset = ""
	case f.Preset != "" && len(f.Scopes) > 0:
		return spec, sdk.FieldErrf(sdk.CodeInvalidField, "scopes",
			"Scopes are ticked but a preset is chosen. Choose \"custom\" to use the ticked ones, or untick them.")
	}
	for _, a := range strings.FieldsFunc(f.Agents, func(r rune) bool { return r == '\n' || r == '\r' || r == ',' }) {
		if a = strings.TrimSpace(a); a != "" {
			spec.Agents = append(spec.Agents, a)
		}
	}
	if f.LastDay != "" {
		day, err := time.Parse(time.DateOnly, f.LastDay)
		if err != nil {
			return spec, sdk.FieldErrf(sdk.CodeInvalidField, "last_day", "The last day is a date such as 2027-01-31.")
		}
		spec.ExpiresAt = day.AddDate(0, 0, 1)
	}
	return spec, nil
}

// newKeyPage shows a value, this once.
type newKeyPage struct {
	Key     keyRow
	Value   string
	Instead *keyRow // the key that this one takes the place of
}

func (c *Console) createKey(w http.ResponseWriter, r *http.Request, v *visit) {
	f, err := readForm(r)
	if err != nil {
		c.refuseError(w, v, err)
		return
	}
	if v = c.confirm(w, r, v, f); v == nil {
		return
	}
	typed, err := readKeyForm(f)
	if err != nil {
		c.refuseError(w, v, err)
		return
	}
	spec, err := typed.spec()
	var made *ops.NewKey
	if err == nil {
		made, err = c.set.Keys.CreateKey(r.Context(), spec, v.by)
	}
	if err != nil {
		status, text := c.statusOf(err)
		c.showKeys(w, v, status, 1, typed, text, fieldOf(err))
		return
	}
	c.showValue(w, v, made, nil)
}

// showValue answers with the value of a key just made. Nothing keeps it: not the history (it is an answer to a POST),
// not a cache (no-store), not this program.
func (c *Console) showValue(w http.ResponseWriter, v *visit, made *ops.NewKey, instead *keyRow) {
	c.render(w, http.StatusOK, "newkey", view{Title: "New key", Visit: v,
		Page: newKeyPage{Key: rowOf(made.Key, c.set.Now()), Value: made.Value, Instead: instead}})
}

// fieldOf is the form's field that an error is about.
func fieldOf(err error) string {
	var e *sdk.Error
	if !errors.As(err, &e) {
		return ""
	}
	if e.Field == "expires_at" {
		return "last_day"
	}
	return e.Field
}
