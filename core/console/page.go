package console

import (
	"bytes"
	"fmt"
	"net/url"
	"reflect"
	"strings"
	"time"
)

// document is a page in the making. Its methods beside these are compiled of pages/*.html.
type document struct{ bytes.Buffer }

// raw writes what a template has between its actions.
func (h *document) raw(s string) { h.WriteString(s) }

// escaper escapes what html/template does.
var escaper = strings.NewReplacer("&", "&amp;", "<", "&lt;", ">", "&gt;", `"`, "&#34;", "'", "&#39;", "+", "&#43;",
	"\x00", "\uFFFD")

// esc writes a value into text or into a quoted attribute.
func (h *document) esc(v any) {
	h.WriteString(escaper.Replace(strings.ToValidUTF8(fmt.Sprint(v), "\uFFFD")))
}

// part writes a value into an address, between parts that are always the same.
func (h *document) part(v any) { h.esc(url.PathEscape(fmt.Sprint(v))) }

// address writes a whole address: a path of this server, and nothing else.
func (h *document) address(v any) {
	s := fmt.Sprint(v)
	u, err := url.Parse(s)
	if err != nil || u.IsAbs() || u.Host != "" || !strings.HasPrefix(s, "/") || strings.HasPrefix(s, "//") ||
		strings.ContainsAny(s, "\\\t\r\n") {
		s = "#"
	}
	h.esc(s)
}

// is reports whether a template takes a value for true: what is not empty.
func is(v any) bool {
	switch v := v.(type) {
	case bool:
		return v
	case string:
		return v != ""
	case nil:
		return false
	}
	switch r := reflect.ValueOf(v); r.Kind() {
	case reflect.Slice, reflect.Map, reflect.String:
		return r.Len() > 0
	case reflect.Struct:
		return true
	default:
		return !r.IsZero()
	}
}

func day(t time.Time) string     { return t.UTC().Format("2006-01-02 15:04") + " UTC" }
func second(t time.Time) string  { return t.UTC().Format("2006-01-02 15:04:05") + " UTC" }
func machine(t time.Time) string { return t.UTC().Format(time.RFC3339) }
func lines(s string) []string    { return strings.Split(s, "\n") }
