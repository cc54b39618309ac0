package wire_test

import (
	"errors"
	"reflect"
	"testing"

	"github.com/yett-dev/yett/sdk"
	"github.com/yett-dev/yett/sdk/exact"
	"github.com/yett-dev/yett/sdk/wire"
)

type paramRequest struct {
	ID    string `json:"id" yett:"path,required"`
	Name  string `json:"name,omitempty" yett:"name,query"`
	Free  string `json:"free,omitempty" yett:"query"`
	N     int    `json:"n,omitempty" yett:"query"`
	Limit *int   `json:"limit,omitempty" yett:"query"`
	All   bool   `json:"all,omitempty" yett:"query"`
	Body  string `json:"body,omitempty"`
}

func TestDecodeParams(t *testing.T) {
	id := wire.Param{Name: "id", Value: "x", InPath: true}
	q := func(name, value string) wire.Param { return wire.Param{Name: name, Value: value} }
	for _, c := range []struct {
		name   string
		params []wire.Param
		field  string // at fault
	}{
		{"all", []wire.Param{id, q("name", "a"), q("n", "-3"), q("limit", "0"), q("all", "true")}, ""},
		{"unknown is ignored", []wire.Param{id, q("zzz", "1"), q("zzz", "2")}, ""},
		{"a body's member is not taken", []wire.Param{id, q("body", "1")}, ""},
		{"no path", []wire.Param{q("name", "a")}, "id"},
		{"the path's member in the query", []wire.Param{q("id", "y")}, "id"},
		{"twice", []wire.Param{id, q("n", "1"), q("n", "1")}, "n"},
		{"no number", []wire.Param{id, q("n", "1.0")}, "n"},
		{"plus", []wire.Param{id, q("n", "+1")}, "n"},
		{"leading zero", []wire.Param{id, q("n", "01")}, "n"},
		{"empty number", []wire.Param{id, q("limit", "")}, "limit"},
		{"too large", []wire.Param{id, q("n", "99999999999999999999")}, "n"},
		{"no boolean", []wire.Param{id, q("all", "1")}, "all"},
		{"invisible", []wire.Param{id, q("name", "a\u200b")}, "name"},
		{"bad UTF-8", []wire.Param{id, q("free", "\xff")}, "free"},
		{"too long", []wire.Param{id, q("name", "aaaaaaaaaaaaaaaaa")}, "name"},
	} {
		var dst paramRequest
		err := wire.DecodeParams(c.params, &dst, 16)
		var e *sdk.Error
		if errors.As(err, &e) != (c.field != "") || c.field != "" && e.Field != c.field {
			t.Errorf("%s: %v", c.name, err)
		}
		if err == nil && (dst.ID != "x" || dst.Body != "") {
			t.Errorf("%s: %+v", c.name, dst)
		}
	}
	var dst paramRequest
	if err := wire.DecodeParams([]wire.Param{id, q("limit", "0"), q("n", "7"), q("all", "true")}, &dst, 16); err != nil ||
		dst.Limit == nil || *dst.Limit != 0 || dst.N != 7 || !dst.All {
		t.Errorf("%v %+v", err, dst)
	}
}

func TestBodyCannotSayWhatThePathSays(t *testing.T) {
	var doc exact.Doc
	if err := doc.Parse(`{"id":5,"name":"n","body":"b"}`, exact.DefaultLimits); err != nil {
		t.Fatal(err)
	}
	var dst paramRequest
	if err := wire.Decode(doc.Root(), &dst, 16); err != nil || dst.ID != "" || dst.Body != "b" {
		t.Errorf("%v %+v", err, dst)
	}
}

func TestParamsOf(t *testing.T) {
	got := wire.ParamsOf(reflect.TypeFor[paramRequest]())
	if want := (wire.Params{Path: []string{"id"}, Query: []string{"name", "free", "n", "limit", "all"},
		Body: true}); !reflect.DeepEqual(got, want) {
		t.Errorf("%+v", got)
	}
}

func FuzzDecodeParams(f *testing.F) {
	f.Add("id", "n", "1")
	f.Add("x", "all", "true")
	f.Fuzz(func(t *testing.T, id, name, value string) {
		var dst paramRequest
		err := wire.DecodeParams([]wire.Param{{Name: "id", Value: id, InPath: true}, {Name: name, Value: value}}, &dst, 256)
		var e *sdk.Error
		if err != nil && !errors.As(err, &e) {
			t.Fatalf("not an error for the caller: %v", err)
		}
		if err == nil && dst.ID != id {
			t.Fatalf("id %q became %q", id, dst.ID)
		}
	})
}
