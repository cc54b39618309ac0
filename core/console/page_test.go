package console

import (
	"bytes"
	"fmt"
	"html/template"
	"math/rand/v2"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/yett-dev/yett/core/status"
	"github.com/yett-dev/yett/core/store"
	"github.com/yett-dev/yett/core/testkit"
)

// hostile are texts that no page may take for markup.
var hostile = []string{"", "", "plain", "<b>x</b>", `"onclick="x`, "'", "a&b;&lt;", "1+1", "\u202egnp", "\x00\xff",
	"</textarea>", "{{.Title}}", "javascript:alert(1)", "two\nlines", "pending", "approved", "denied",
	"live", "grace", "revoked",
	"admin", "name", "reason", "error"}

// safe are fields that the server makes itself, and that stand in addresses.
var safe = map[string]bool{"DecisionID": true, "ID": true, "Action": true, "Back": true}

// fill gives every field a value, any value.
func fill(rng *rand.Rand, v reflect.Value, name string, plugin bool) {
	switch v.Kind() {
	case reflect.String:
		switch {
		case safe[name] && (name == "DecisionID" || name == "ID"), plugin && name == "Name":
			v.SetString([]string{"dec_1", "a-b.c"}[rng.IntN(2)])
		case safe[name]:
			v.SetString([]string{"/keys", "/approvals/dec_1?x=y&z=1"}[rng.IntN(2)])
		case name == "Next":
			v.SetString([]string{"/keys", ""}[rng.IntN(2)])
		default:
			v.SetString(hostile[rng.IntN(len(hostile))])
		}
	case reflect.Bool:
		v.SetBool(rng.IntN(2) == 0)
	case reflect.Int, reflect.Int64:
		v.SetInt(int64(rng.IntN(3)))
	case reflect.Uint64, reflect.Uint32:
		v.SetUint(uint64(rng.IntN(3)))
	case reflect.Float64:
		v.SetFloat(float64(rng.IntN(300)) / 7)
	case reflect.Slice:
		if v.Type().Elem().Kind() == reflect.Uint8 {
			return
		}
		v.Set(reflect.MakeSlice(v.Type(), rng.IntN(3), 3))
		for i := range v.Len() {
			fill(rng, v.Index(i), name, plugin)
		}
	case reflect.Pointer:
		if v.Type().Elem().Kind() == reflect.Struct && rng.IntN(3) > 0 {
			v.Set(reflect.New(v.Type().Elem()))
			fill(rng, v.Elem(), name, plugin)
		}
	case reflect.Struct:
		if v.Type() == reflect.TypeFor[time.Time]() {
			v.Set(reflect.ValueOf(time.Unix(int64(rng.IntN(3))*1e9, 0)))
			return
		}
		plugin = plugin || v.Type() == reflect.TypeFor[status.Plugin]()
		for i := range v.NumField() {
			if f := v.Type().Field(i); f.IsExported() || f.Anonymous {
				fill(rng, v.Field(i), f.Name, plugin)
			}
		}
	}
}

// TestPagesAreWhatTheirTemplatesSay: the compiled pages are, byte for byte, what html/template makes of the same
// templates, which knows how to escape in each place.
func TestPagesAreWhatTheirTemplatesSay(t *testing.T) {
	layout := template.Must(template.New("layout.html").Funcs(template.FuncMap{"visible": visible, "plain": plain,

		"day": day, "second": second, "lines": lines, "machine": machine}).ParseFiles("pages/layout.html"))
	for name, of := range map[string]any{"signin": signInPage{}, "setup": setupPage{}, "confirm": confirmPage{},
		"keys": keysPage{}, "newkey": newKeyPage{}, "roll": changePage{}, "revoke": changePage{},
		"approvals": approvalsPage{}, "approval": approvalPage{},
		"plugins": pluginsPage{}, "resume": status.Plugin{}, "refusal": nil} {
		t.Run(name, func(t *testing.T) {
			oracle := template.Must(template.Must(layout.Clone()).ParseFiles("pages/" + name + ".html"))
			seen := map[string]bool{}
			for seed := range uint64(testkit.Rounds(2_000, 200)) {
				rng := rand.New(rand.NewPCG(seed, 3))
				v := view{}
				fill(rng, reflect.ValueOf(&v).Elem(), "", false)
				v.Page, v.Visit = nil, nil
				if rng.IntN(3) > 0 {
					v.Visit = &visit{op: store.Operator{Name: hostile[rng.IntN(len(hostile))],
						Role: []string{"admin", "auditor"}[rng.IntN(2)]}}
				}
				if of != nil {
					p := reflect.New(reflect.TypeOf(of))
					fill(rng, p.Elem(), "", name == "resume")
					if v.Page = p.Elem().Interface(); name == "resume" {
						v.Page = p.Interface()
					}
				}
				var want bytes.Buffer
				// bytes that are no text html/template leaves as they are
				if err := oracle.ExecuteTemplate(&want, "layout.html", v); err != nil {
					t.Fatalf("seed %d: %v", seed, err)
				}
				h := &document{}
				h.layout(v, bodies[name])
				if got, want := h.String(), strings.ToValidUTF8(want.String(), "\uFFFD"); got != want {
					t.Fatalf("seed %d: %s", seed, firstDifference(got, want))
				}
				seen[want.String()] = true
			}
			if len(seen) < 20 {
				t.Errorf("only %d pages differ", len(seen))
			}
		})
	}
}

func firstDifference(got, want string) string {
	i := 0
	for i < min(len(got), len(want)) && got[i] == want[i] {
		i++
	}
	at := func(s string) string { return s[max(0, i-80):min(len(s), i+80)] }
	return fmt.Sprintf("at byte %d:\n got %q\nwant %q", i, at(got), at(want))
}

// TestAddresses: what is no path of this server is no address.
func TestAddresses(t *testing.T) {
	for in, want := range map[string]string{"/keys": "/keys", "/a?b=c&d": "/a?b=c&amp;d", "": "#",
		"javascript:alert(1)": "#", "//evil.example": "#", "https://evil.example/": "#", "keys": "#", "/\\evil": "#", "\x01": "#"} {
		h := &document{}
		if h.address(in); h.String() != want {
			t.Errorf("%q: %q, want %q", in, h.String(), want)
		}
	}
	h := &document{}
	if h.part(`a/b?c"d<`); strings.ContainsAny(h.String(), `/?"<`) {
		t.Errorf("a part: %q", h.String())
	}
}
