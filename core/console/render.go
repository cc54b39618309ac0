package console

import (
	"bytes"
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"errors"
	"net/http"
	"path"
	"strings"
	"time"

	"github.com/yett-dev/yett/core/ops"
	"github.com/yett-dev/yett/sdk"
	"github.com/yett-dev/yett/sdk/wire"
)

//go:embed assets/*
var assetFiles embed.FS

// view is what a page is made of.
type view struct {
	Title   string
	Visit   *visit // nil: nobody is signed in
	Error   string
	Field   string // the field that Error is about
	Page    any
	Version string
}

// SignedIn is the name of who is signed in, or "".
func (v view) SignedIn() string {
	if v.Visit == nil {
		return ""
	}
	return v.Visit.op.Name
}

// Role is the role of who is signed in, or "".
func (v view) Role() string {
	if v.Visit == nil {
		return ""
	}
	return v.Visit.op.Role
}

//go:generate go run ./compile

// render writes a page. It is made whole before its first byte goes out.
func (c *Console) render(w http.ResponseWriter, status int, name string, v view) {
	v.Version = c.set.Version
	h := &document{}
	h.layout(v, bodies[name])
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	w.WriteHeader(status)
	if _, err := w.Write(h.Bytes()); err != nil {
		c.set.Log("console: page %s was not sent whole: %v", name, err)
	}
}

// refuse writes a page that says why nothing was done.
func (c *Console) refuse(w http.ResponseWriter, v *visit, status int, title, text string) {
	c.render(w, status, "refusal", view{Title: title, Visit: v, Error: text})
}

func (c *Console) refuseError(w http.ResponseWriter, v *visit, err error) {
	status, text := c.statusOf(err)
	title := "Nothing was done"
	if codeOf(err) == sdk.CodeNotDurable {
		title = "In effect, but not on disk"
	}
	c.refuse(w, v, status, title, text)
}

func codeOf(err error) sdk.Code {
	var e *sdk.Error
	if errors.As(err, &e) {
		return e.Code
	}
	return ""
}

// statusOf gives what a page says of an error. What is not meant for the person goes to the log.
func (c *Console) statusOf(err error) (int, string) {
	var e *sdk.Error
	switch {
	case !errors.As(err, &e), e.Code == sdk.CodeInternal:
		c.set.Log("console: %s", ops.Keyless(err.Error()))
		return http.StatusInternalServerError, "Something went wrong in the gateway. Its log says what."
	case e.Code == sdk.CodeAuditUnavailable:
		c.set.Log("console: %s", ops.Keyless(err.Error()))
		return http.StatusServiceUnavailable, "This could not be recorded, so it does not count as done. It may still " +
			"reach the disk late: look before you try again."
	case e.Msg == "":
		return wire.StatusOf(e.Code).HTTP, wire.StatusOf(e.Code).Title + "."
	}
	return wire.StatusOf(e.Code).HTTP, sentence(ops.Keyless(e.Msg))
}

// sentence makes a message one: it begins with a capital and ends with a stop.
func sentence(s string) string {
	s = strings.ToUpper(s[:1]) + s[1:]
	if !strings.HasSuffix(s, ".") {
		s += "."
	}
	return s
}

// asset is one file that pages link to.
type asset struct {
	kind, tag string
	body      []byte
}

var assetKinds = map[string]string{".css": "text/css; charset=utf-8", ".js": "text/javascript; charset=utf-8",
	".svg": "image/svg+xml"}

func readAssets() map[string]asset {
	out := map[string]asset{}
	files, _ := assetFiles.ReadDir("assets") // an embedded folder is there
	for _, f := range files {
		body, _ := assetFiles.ReadFile("assets/" + f.Name())
		sum := sha256.Sum256(body)
		out[f.Name()] = asset{assetKinds[path.Ext(f.Name())], `"` + hex.EncodeToString(sum[:16]) + `"`, body}
	}
	return out
}

// asset serves a file that pages link to. It is the same for everybody and asked for anew each time: with a tag, so
// that an answer without content is the usual one.
func (c *Console) asset(w http.ResponseWriter, r *http.Request) {
	a, ok := c.assets[r.PathValue("file")]
	if !ok {
		c.refuse(w, nil, http.StatusNotFound, "No such page", "There is no page at this address.")
		return
	}
	h := w.Header()
	h.Set("Cache-Control", "no-cache")
	h.Set("Content-Type", a.kind)
	h.Set("ETag", a.tag)
	http.ServeContent(w, r, "", time.Time{}, bytes.NewReader(a.body))
}
