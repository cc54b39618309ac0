package console

import (
	"errors"
	"mime"
	"net/http"
	"net/url"
	"slices"
	"unicode/utf8"

	"github.com/yett-dev/yett/sdk"
)

// form is what a page sent: the body, never the address.
type form url.Values

// pair is one value of a form.
type pair struct{ Name, Value string }

// readForm reads a request's form. Its size is bounded by ServeHTTP.
func readForm(r *http.Request) (form, error) {
	kind, _, err := mime.ParseMediaType(r.Header.Get("Content-Type"))
	if err != nil || kind != "application/x-www-form-urlencoded" || r.Header.Get("Content-Encoding") != "" {
		return nil, sdk.Errf(sdk.CodeUnsupportedCoding,
			"The console takes forms (application/x-www-form-urlencoded, not compressed) only.")
	}
	if err := r.ParseForm(); err != nil {
		var large *http.MaxBytesError
		if errors.As(err, &large) {
			return nil, sdk.Errf(sdk.CodeTooLarge, "The form is larger than the limit of %d KiB.", formBytes>>10)
		}
		return nil, sdk.Errf(sdk.CodeBadRequest, "The form cannot be read.")
	}
	for name, values := range r.PostForm {
		for _, v := range append(values, name) {
			if !utf8.ValidString(v) {
				return nil, sdk.Errf(sdk.CodeBadRequest, "The form is not UTF-8.")
			}
		}
	}
	return form(r.PostForm), nil
}

// one is the value of a field that is there once; "" when it is not there.
func (f form) one(name string) (string, error) {
	switch v := f[name]; len(v) {
	case 0:
		return "", nil
	case 1:
		return v[0], nil
	default:
		return "", sdk.FieldErrf(sdk.CodeBadRequest, name, "The form has the field %s more than once.", name)
	}
}

func (f form) two(a, b string) (va, vb string, err error) {
	va, errA := f.one(a)
	vb, errB := f.one(b)
	return va, vb, errors.Join(errA, errB)
}

// first is a value to fill into the form again.
func (f form) first(name string) string { return url.Values(f).Get(name) }

func (f form) has(name string) bool { return len(f[name]) > 0 }

// without lists the values but for one field, in the same order each time.
func (f form) without(field string) []pair {
	var out []pair
	for name, values := range f {
		if name == field {
			continue
		}
		for _, v := range values {
			out = append(out, pair{name, v})
		}
	}
	slices.SortStableFunc(out, func(a, b pair) int {
		switch {
		case a.Name < b.Name:
			return -1
		case a.Name > b.Name:
			return 1
		}
		return 0
	})
	return out
}
