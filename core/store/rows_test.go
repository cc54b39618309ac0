package store

import (
	"bytes"
	"encoding/hex"
	"encoding/json"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
)

var (
	rowTime  = time.Date(2026, 2, 3, 4, 5, 6, 789_012_345, time.UTC)
	rowLater = time.Date(2027, 12, 31, 23, 59, 59, 0, time.FixedZone("", 5400))
)

func fullKey() storedKey {
	return storedKey{&Key{ID: "k1Zz09aBcDeF", Name: "billing ü", Environment: "production",
		Scopes: []string{"authorize", "scan"}, Preset: "agent", Agents: []string{"billing-*", "ledger"},
		CreatedAt: rowTime, CreatedBy: "console:ann",
		ExpiresAt: rowLater, Note: strings.Repeat("n", 200),
		MAC:  bytes.Repeat([]byte{0, 255}, 16),
		Root: "k0"}, keyState{RevokedAt: rowTime.Add(1), RevokedBy: "admin:0", Again: true, Grace: true,
		LastUsed: time.Unix(60, 0).UTC()}}
}

func fullGrant() storedGrant {
	return storedGrant{&Grant{ID: "stg_01", AgentID: "billing-*", ToolPattern: "payments/**", Operation: "refund",
		SessionID: "s1",
		RuleID:    "money", Rules: []string{"money", ""}, Steps: []string{"house", "team"}, Policy: "v7",
		ArgsMatch: "args.amount < 10", MaxUses: 300, Created: rowTime, Expires: rowLater, IssuedBy: "k1",
		Issuers: []string{"k1", "console:bob"}, Token: "dfr_1",
		Note: "as agreed"},
		grantState{RevokedAt: time.Unix(-1, 5).UTC(), RevokedBy: "k2"}}
}

// variants gives the value with all its fields, with none but the id, and with each other field alone.
func variants[T any](full *T, id func(*T) *string) (all []*T) {
	bare := func() *T {
		one := new(T)
		if id != nil {
			*id(one) = *id(full)
		}
		return one
	}
	all = append(all, full, bare())
	from := reflect.ValueOf(full).Elem()
	for i := range from.NumField() {
		if !from.Type().Field(i).IsExported() {
			continue
		}
		one := bare()
		reflect.ValueOf(one).Elem().Field(i).Set(from.Field(i))
		all = append(all, one)
		if from.Field(i).Kind() == reflect.Slice { // nil and empty are not the same everywhere
			one := bare()
			reflect.ValueOf(one).Elem().Field(i).Set(reflect.MakeSlice(from.Field(i).Type(), 0, 0))
			all = append(all, one)
		}
	}
	return all
}

func keyVariants() (all []storedKey) {
	full := fullKey()
	for _, is := range variants(&full.keyState, nil) {
		all = append(all, storedKey{full.Key, *is}, storedKey{&Key{ID: "k"}, *is})
	}
	for _, k := range variants(full.Key, func(k *Key) *string { return &k.ID }) {
		all = append(all, storedKey{Key: k})
	}
	return append(all, storedKey{&Key{ID: "k", Explicit: true}, keyState{}}, explicitKey())
}

// explicitKey has the field that rows of the first version did not have.
func explicitKey() storedKey {
	full := fullKey()
	full.Explicit = true
	return full
}

func grantVariants() (all []storedGrant) {
	full := fullGrant()
	for _, is := range variants(&full.grantState, nil) {
		all = append(all, storedGrant{full.Grant, *is}, storedGrant{&Grant{ID: "g"}, *is})
	}
	for _, g := range variants(full.Grant, func(g *Grant) *string { return &g.ID }) {
		all = append(all, storedGrant{Grant: g})
	}
	return all
}

func sameKey(t *testing.T, got, want storedKey) {
	t.Helper()
	samePublic(t, got.Key, want.Key)
	samePublic(t, &got.keyState, &want.keyState)
}

func sameGrant(t *testing.T, got, want storedGrant) {
	t.Helper()
	samePublic(t, got.Grant, want.Grant)
	samePublic(t, &got.grantState, &want.grantState)
}

// asJSON is what a row in JSON kept of a value.
func asJSON[T any](t *testing.T, v T) (out T) {
	t.Helper()
	row, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(row, &out); err != nil {
		t.Fatal(err)
	}
	return out
}

// samePublic compares the fields that are stored. Times are the same if they are the same instant in the same zone.
func samePublic(t *testing.T, got, want any) {
	t.Helper()
	a, b := reflect.ValueOf(got).Elem(), reflect.ValueOf(want).Elem()
	for i := range a.NumField() {
		field := a.Type().Field(i)
		if !field.IsExported() {
			continue
		}
		x, y := a.Field(i).Interface(), b.Field(i).Interface()
		if at, ok := x.(time.Time); ok {
			is := y.(time.Time)
			if !at.Equal(is) || at.Format(time.RFC3339Nano) != is.Format(time.RFC3339Nano) {
				t.Errorf("%s is %s, want %s", field.Name, at, is)
			}
		} else if !reflect.DeepEqual(x, y) {
			t.Errorf("%s is %#v, want %#v", field.Name, x, y)
		}
	}
}

// TestRowsKeepWhatJSONKept: a row holds each field just as a row in JSON did, and both are read.
func TestRowsKeepWhatJSONKept(t *testing.T) {
	for _, reader := range []*rowReader{oneRow(), newRowReader()} {
		for _, k := range keyVariants() {
			row, err := k.appendRow(nil)
			if err != nil {
				t.Fatal(err)
			}
			old, err := json.Marshal(k)
			if err != nil {
				t.Fatal(err)
			}
			for _, row := range [][]byte{row, old} {
				got, err := reader.key(row)
				if err != nil {
					t.Fatal(err)
				}
				sameKey(t, got, asJSON(t, k))
			}
		}
		for _, g := range grantVariants() {
			row, err := g.appendRow(nil)
			if err != nil {
				t.Fatal(err)
			}
			old, err := json.Marshal(g)
			if err != nil {
				t.Fatal(err)
			}
			for _, row := range [][]byte{row, old} {
				got, err := reader.grant(row)
				if err != nil {
					t.Fatal(err)
				}
				sameGrant(t, got, asJSON(t, g))
			}
		}
	}
}

// TestRowsAreGolden: what is on disk today is read by every later version.
func TestRowsAreGolden(t *testing.T) {
	key, err := fullKey().appendRow(nil)
	if err != nil {
		t.Fatal(err)
	}
	grant, err := fullGrant().appendRow(nil)
	if err != nil {
		t.Fatal(err)
	}
	explicit, err := explicitKey().appendRow(nil)
	if err != nil {
		t.Fatal(err)
	}
	for name, row := range map[string][]byte{"key.golden": key, "key_explicit.golden": explicit, "grant.golden": grant} {
		got, path := hex.Dump(row), filepath.Join("testdata", name)
		if os.Getenv("GOLDEN") == "write" {
			if err := os.WriteFile(path, []byte(got), 0o644); err != nil {
				t.Fatal(err)
			}
		}
		want, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		if got != string(want) {
			t.Errorf("%s: a row is\n%s", name, got)
		}
	}
}

// TestDamagedRows: an error says what is wrong with a row.
func TestDamagedRows(t *testing.T) {
	for _, c := range []struct {
		row, want string
		grant     bool
	}{
		{row: "", want: "its row is empty"},
		{row: "\x02\x01\x01a", want: "its row has version 2"},
		{row: "\x01", want: "no id"},
		{row: "\x01\x02\x01a", want: "no id"},
		{row: "\x01\x01", want: "field 1 of its row is cut off"},
		{row: "\x01\x01\x02a", want: "field 1 of its row is cut off"},
		{row: "\x01\x01\x81\x00a", want: "field 1 of its row is cut off, or has no valid length"},
		{row: "\x01\x01\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01a", want: "field 1 of its row is cut off"},
		{row: "\x01\x01\xff\xff\xff\xff\xff\xff\xff\xff\xff\x02a", want: "field 1 of its row is cut off"},
		{row: "\x01\x01\x00", want: "field 1 of its row: it is there without a value"},
		{row: "\x01\x02\x01a\x01\x01a", want: "field 1 of its row follows field 2"},
		{row: "\x01\x01\x01a\x01\x01a", want: "field 1 of its row follows field 1"},
		{row: "\x01\x00\x01a", want: "field 0 of its row follows field 0"},
		{row: "\x01\x01\x01a\x13\x01a", want: "field 19 of its row is unknown"},
		{row: "\x01\x01\x01a\x12\x01a", want: "field 18 of its row: a flag has no value"},
		{row: "\x01\x01\x01a\x04\x01\x01", want: "field 4 of its row: not a list"},
		{row: "\x01\x01\x01a\x06\x00", want: "field 6 of its row: it is there without a value"},
		{row: "\x01\x01\x01a\x07\x01\x80", want: "field 7 of its row: not a time"},
		{row: "\x01\x01\x01a\x07\x02\x02\x00", want: "field 7 of its row: not a time"},
		{row: "\x01\x01\x01a\x07\x03\x02\x01\x00", want: "field 7 of its row: not a time"},
		{row: "\x01\x01\x01a\x0f\x01a", want: "field 15 of its row: a flag has no value"},
		{row: "\x01\x01\x01a\x14\x01a", grant: true, want: "field 20 of its row is unknown"},
		{row: "\x01\x01\x01a\x0b\x01\x00", grant: true, want: "field 11 of its row: not a number"},
		{row: "\x01\x01\x01a\x0b\x02\x01\x01", grant: true, want: "field 11 of its row: not a number"},
		{row: "\x01\x01\x01a\x07\x00", grant: true, want: "field 7 of its row: it is there without a value"},
		{row: "{", grant: true, want: "JSON"},
	} {
		var err error
		if c.grant {
			_, err = newRowReader().grant([]byte(c.row))
		} else {
			_, err = newRowReader().key([]byte(c.row))
		}
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%q: got %v, want %q", c.row, err, c.want)
		}
	}
}

// TestTimesThatRowsCannotHold are refused when the row is written.
func TestTimesThatRowsCannotHold(t *testing.T) {
	for _, at := range []time.Time{time.Date(10_000, 1, 1, 0, 0, 0, 0, time.UTC),
		time.Date(-1, 1, 1, 0, 0, 0, 0, time.UTC), rowTime.In(time.FixedZone("", day))} {
		_, key := storedKey{Key: &Key{ID: "k", ExpiresAt: at}}.appendRow(nil)
		_, grant := storedGrant{Grant: &Grant{ID: "g", Expires: at}}.appendRow(nil)
		for _, err := range []error{key, grant} {
			if err == nil || !strings.Contains(err.Error(), "expires_at") {
				t.Errorf("%s: %v", at, err)
			}
		}
	}
}

// TestTheLastHoursOfTheYear9999: an earlier version took them in any zone, also where they lie in 10000 by UTC.
func TestTheLastHoursOfTheYear9999(t *testing.T) {
	const last = `"9999-12-31T23:59:59-12:00"}`
	k, err := oneRow().key([]byte(`{"id":"k","expires_at":` + last))
	if err != nil {
		t.Fatal(err)
	}
	row, err := k.appendRow(nil)
	if again, err2 := oneRow().key(row); err != nil || err2 != nil || again.ExpiresAt.Year() != 9999 {
		t.Errorf("a key of %v: %v, %v", k.ExpiresAt, err, err2)
	}
	g, err := oneRow().grant([]byte(`{"id":"g","expires_at":` + last))
	if err != nil {
		t.Fatal(err)
	}
	row, err = g.appendRow(nil)
	if again, err2 := oneRow().grant(row); err != nil || err2 != nil || again.Expires.Year() != 9999 {
		t.Errorf("a grant of %v: %v, %v", g.Expires, err, err2)
	}
}

// TestRowsOfEarlierVersions: a store whose rows are in JSON opens, and a row becomes binary when it changes.
func TestRowsOfEarlierVersions(t *testing.T) {
	r := &rig{t: t, fs: vfs.NewMem(), clock: newClock()}
	r.open()
	agent := r.key("agent", []string{"a-*"}, "authorize")
	boss := r.key("boss", nil, "approve", "grants")
	grant := r.granted("*", 3)
	r.must(inBatch(func(tx *tx) {
		for _, id := range []string{"agent", "boss"} {
			row, err := json.Marshal(storedKey{tx.s.Key(id), tx.s.Key(id).state()})
			tx.keep(err)
			tx.set(keyStr(prefixKey, id), row)
		}
		row, err := json.Marshal(grant)
		tx.keep(err)
		tx.set(keyStr(prefixGrant, grant.ID), row)
	}))
	r.reopen()
	samePublic(t, r.s.Key("agent"), agent)
	if g := r.s.grants.byID[grant.ID]; g == nil {
		t.Fatal("the grant is gone")
	} else {
		samePublic(t, g, grant)
	}
	first := func(key []byte) byte {
		row, closer, err := r.s.db.Get(key)
		if err != nil {
			t.Fatal(err)
		}
		defer closer.Close()
		return row[0]
	}
	for _, at := range [][]byte{keyStr(prefixKey, "agent"), keyStr(prefixGrant, grant.ID)} {
		if first(at) != jsonRow {
			t.Errorf("%q is not in JSON", at)
		}
	}
	r.must(&RevokeKey{ID: "agent", By: by(boss)})
	r.must(&RevokeGrant{ID: grant.ID, By: by(boss)})
	for _, at := range [][]byte{keyStr(prefixKey, "agent"), keyStr(prefixGrant, grant.ID)} {
		if first(at) != rowVersion {
			t.Errorf("%q is in JSON", at)
		}
	}
	r.reopen()
	if r.s.Key("agent").Revocation() == nil || r.s.grants.byID[grant.ID] != nil {
		t.Error("what was revoked is not")
	}
	r.close()
}

// TestOneRowOfAnother: a row that names another id than its place does is refused before anything is taken from it.
func TestOneRowOfAnother(t *testing.T) {
	for _, prefix := range []byte{prefixKey, prefixGrant} {
		r := newRig(t)
		r.putMany(2)
		from, to := keyStr(prefixKey, "yk_0000000000000000"), keyStr(prefixKey, "yk_0000000000000001")
		if prefix == prefixGrant {
			from, to = keyStr(prefixGrant, "stg_0000000000000000"), keyStr(prefixGrant, "stg_0000000000000001")
		}
		row, _, err := r.s.get(from)
		if err != nil {
			t.Fatal(err)
		}
		r.must(inBatch(func(tx *tx) { tx.set(to, row) }))
		if err := r.s.Close(); err != nil {
			t.Fatal(err)
		}
		if _, err := Open(settings(r.fs, r.clock, nil)); err == nil || !strings.Contains(err.Error(), "its row is that of") {
			t.Errorf("got %v", err)
		}
	}
}

// FuzzKeyRow: a row either gives a key that has the same row, or an error.
func FuzzKeyRow(f *testing.F) {
	for _, k := range keyVariants() {
		row, err := k.appendRow(nil)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(row)
	}
	f.Add([]byte(`{"id":"k","scopes":["scan"],"created_at":"2026-01-02T03:04:05+01:30"}`))
	f.Fuzz(func(t *testing.T, row []byte) {
		k, err := newRowReader().key(row)
		if err != nil {
			return
		}
		same(t, row, k.appendRow)
		again, err := oneRow().key(row)
		if err != nil {
			t.Fatal(err)
		}
		sameKey(t, again, k)
	})
}

// FuzzGrantRow: a row either gives a grant that has the same row, or an error. A start finds of it what everybody
// finds.
func FuzzGrantRow(f *testing.F) {
	for _, g := range grantVariants() {
		row, err := g.appendRow(nil)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(row)
	}
	f.Add([]byte(`{"id":"g","issuers":null,"expires_at":"2026-01-02T03:04:05+01:30"}`))
	f.Fuzz(func(t *testing.T, row []byte) {
		g, err := newRowReader().grant(row)
		live, liveErr := newRowReader().liveGrant(row, 3, rowTime)
		if err != nil {
			if live != nil {
				t.Fatalf("a start takes what is refused otherwise: %v", err)
			}
			return
		}
		if liveErr != nil {
			t.Fatal(liveErr)
		}
		same(t, row, g.appendRow)
		g.ready(g.grantState)
		g.uses.Store(3)
		if is := g.Status(rowTime) == "live"; is != (live != nil) {
			t.Fatalf("live is %v, and a start takes it: %v", is, live != nil)
		}
		if live != nil {
			samePublic(t, live, g.Grant)
		}
	})
}

func same(t *testing.T, row []byte, write func([]byte) ([]byte, error)) {
	t.Helper()
	got, err := write(nil)
	if row[0] == jsonRow {
		return // it need not have an id
	}
	if err != nil || !bytes.Equal(got, row) {
		t.Fatalf("%q gives %q: %v", row, got, err)
	}
}

// TestRowsThatOthersMayNotGrow: rows have lists in common, and none of them can grow into another one's room.
func TestRowsThatOthersMayNotGrow(t *testing.T) {
	r := newRowReader()
	row, err := fullGrant().appendRow(nil)
	if err != nil {
		t.Fatal(err)
	}
	a, err := r.grant(row)
	if err != nil {
		t.Fatal(err)
	}
	key, err := fullKey().appendRow(nil)
	if err != nil {
		t.Fatal(err)
	}
	k, err := r.key(key)
	if err != nil {
		t.Fatal(err)
	}
	for _, list := range [][]string{a.Rules, a.Steps, a.Issuers, k.Agents, k.Scopes} {
		_ = append(list, "more")
	}
	_ = append(k.MAC, 1)
	b, err := r.grant(row)
	if err != nil {
		t.Fatal(err)
	}
	sameGrant(t, b, fullGrant())
	sameGrant(t, a, fullGrant())
	sameKey(t, k, fullKey())
}
