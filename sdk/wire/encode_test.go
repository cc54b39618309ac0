package wire

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"reflect"
	"testing"
)

// responses are all types that an operation answers with.
var responses = []interface{ AppendJSON(dst []byte) []byte }{&AuthorizeResponse{}, &ApproveResponse{},
	&DeferStatusResponse{}, &ScanResponse{},
	&PollDeferResponse{}, &Approval{}, &ApprovalListResponse{}, &GrantAddResponse{}, &GrantListResponse{}, &OKResponse{},
	&KillResponse{}, &KillListResponse{}, &SubscribeResponse{}}

// odd are texts that an encoder may get wrong.
var odd = []string{"", "plain", "quote \" and \\ and /", "line\nend\ttab\r\b\f", "\x00\x01\x1f\x7f", "é 世界 😀",
	"\u2028\u2029", "</script>&amp;", "\xff bad \xc3\x28 utf-8 \xed\xa0\x80"}

// fill sets every field of v, lists never nil: those members are always there.
func fill(r *rand.Rand, v reflect.Value) {
	if v.Type() == reflect.TypeFor[json.RawMessage]() {
		v.SetBytes([]byte(`{"raw":[1,"x"]}`))
		return
	}
	switch v.Kind() {
	case reflect.Struct:
		for i := range v.NumField() {
			fill(r, v.Field(i))
		}
	case reflect.Pointer:
		v.SetZero()
		if r.IntN(3) > 0 {
			v.Set(reflect.New(v.Type().Elem()))
			fill(r, v.Elem())
		}
	case reflect.Slice:
		v.Set(reflect.MakeSlice(v.Type(), r.IntN(4), 4))
		for i := range v.Len() {
			fill(r, v.Index(i))
		}
	case reflect.String:
		v.SetString(odd[r.IntN(len(odd))])
	case reflect.Bool:
		v.SetBool(r.IntN(2) == 0)
	case reflect.Int, reflect.Int64:
		v.SetInt([]int64{0, 1, 59, 1 << 31, 1<<53 - 1}[r.IntN(5)])
	case reflect.Uint64:
		v.SetUint(r.Uint64N(1 << 53))
	case reflect.Float32:
		v.SetFloat(float64([]float32{0, 0.1, 0.5, 1, 1e-7, 0.987654}[r.IntN(6)]))
	default:
		panic(fmt.Sprintf("fill knows no %v: add it", v.Type()))
	}
}

// TestAppendJSONIsEncodingJSON compares the encoders written by hand with the standard library's view of the same
// structs: a field that one of them forgets, a wrong name and a wrong escape are a difference.
func TestAppendJSONIsEncodingJSON(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	for _, resp := range responses {
		t.Run(reflect.TypeOf(resp).Elem().Name(), func(t *testing.T) {
			for range 2000 {
				fill(r, reflect.ValueOf(resp).Elem())
				want, err := json.Marshal(resp)
				if err != nil {
					t.Fatal(err)
				}
				got := resp.AppendJSON([]byte("kept"))
				var a, b any
				if string(got[:4]) != "kept" {
					t.Fatalf("what was in the buffer is gone: %s", got)
				}
				if err := json.Unmarshal(got[4:], &a); err != nil {
					t.Fatalf("%v: %s", err, got)
				}
				if err := json.Unmarshal(want, &b); err != nil {
					t.Fatal(err)
				}
				if !reflect.DeepEqual(a, b) {
					t.Fatalf("got  %s\nwant %s", got[4:], want)
				}
			}
		})
	}
}
