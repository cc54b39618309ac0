package strict

import (
	"errors"
	"strings"
	"testing"

	"github.com/knadh/koanf/v2"
)

// plant is a root that has nothing to do with the program.
type plant struct {
	Version int             `koanf:"version" infile:"true" default:"1" enum:"1" doc:"Format."`
	Name    string          `koanf:"name" default:"works" doc:"Its name."`
	Tank    tank            `koanf:"tank" restart:"true" doc:"The tank."`
	Pumps   []pump          `koanf:"pumps" empty:"ok" doc:"In order."`
	Doors   map[string]pump `koanf:"doors" doc:"By name."`
	Free    Values          `koanf:"free" doc:"Anything."`
}

type tank struct {
	Depth int  `koanf:"depth" default:"3" min:"1" max:"9" doc:"Metres."`
	Holds Size `koanf:"holds" example:"1MiB" doc:"How much."`
}

type pump struct {
	Name string `koanf:"name" req:"true" format:"name" example:"a" doc:"Its name."`
	Code string `koanf:"code" format:"even" example:"aa" doc:"Its code."`
	Path Path   `koanf:"path" example:"/a" doc:"Its file."`
}

func (plant) Reserved() []string   { return []string{"valves"} }
func (plant) ReferencesIn() string { return "free" }

func (pump) Forms() map[string]Form {
	return map[string]Form{"even": {Pattern: "^(..)*$", Check: func(s string) error {
		if len(s)%2 != 0 {
			return Wants("an even number of letters", s)
		}
		return nil
	}}}
}

func load(text string, env ...string) (*plant, *Loader) {
	l := NewLoader(Sources{File: "etc/plant.yaml", Files: map[string][]byte{"etc/plant.yaml": []byte(text)}, Env: env,
		EnvPrefix: "PLANT"})
	var out plant
	l.Load(&out)
	return &out, l
}

// TestAnyStruct: what a struct says in its tags is all that is needed to read, explain, compare, print and document it.
func TestAnyStruct(t *testing.T) {
	p, l := load("version: 1\ntank: {holds: 2KiB}\npumps: [{name: a, code: aa, path: p}]\nfree: {n: 1.50, s: "+
		"\"${env:S}\"}\n",
		"PLANT__TANK__DEPTH=5", "S=hidden")
	l.Resolve(&p.Free, "free")
	if err := l.Err(); err != nil {
		t.Fatal(err)
	}
	if p.Name != "works" || p.Tank != (tank{5, 2 << 10}) || len(p.Pumps) != 1 || p.Pumps[0].Path != "etc/p" ||
		string(p.Free.JSON()) != `{"n":1.50,"s":"hidden"}` {
		t.Errorf("%+v %s", p, p.Free.JSON())
	}
	o := l.Report.Origins
	for _, tt := range [][3]string{{"tank.depth", "5", "env PLANT__TANK__DEPTH"},
		{"tank.holds", "2KiB", "etc/plant.yaml:2:15"}, {"name", "works", "default"}, {"free.s", `"${env:S}"`, "etc/plant.yaml:4:20"}} {
		if value, origin, err := Explain(*p, o, tt[0]); value != tt[1] || origin != tt[2] || err != nil {
			t.Errorf("%s: %s, %s, %v", tt[0], value, origin, err)
		}
	}
	printed := Print(*p, o, false)
	again, l := load(strings.ReplaceAll(string(printed), "etc/p", "p"), "S=hidden")
	l.Resolve(&again.Free, "free")
	if changes := Diff(Settings(*p, true), Settings(*again, true)); len(changes) != 0 || l.Err() != nil {
		t.Errorf("%v, %v of\n%s", changes, l.Err(), printed)
	}
	again.Tank.Depth = 6
	if changes := Diff(Settings(*p, true), Settings(*again, true)); len(changes) != 1 ||
		changes[0] != (Change{"tank.depth", "5", "6", true}) {
		t.Error(changes)
	}
	schema := string(Schema(plant{}, "Plant"))
	for _, want := range []string{`"title": "Plant"`, `"pattern": "^(..)*$"`, `"maximum": 9`} {
		if !strings.Contains(schema, want) {
			t.Errorf("no %s in the schema", want)
		}
	}
}

// TestAnyStructIsRefused: each mistake is told with its place.
func TestAnyStructIsRefused(t *testing.T) {
	for _, tt := range []struct{ text, env, want string }{
		{"name: x\n", "", "etc/plant.yaml:1:1: version: is required; write version: 1"},
		{"version: 1\nvalves: {}\n", "", "etc/plant.yaml:2:1: valves: not in this version"},
		{"version: 1\ntnak: {}\n", "", `tnak: unknown key; did you mean "tank"?`},
		{"version: 1\nname: \"${env:S}\"\n", "", "name: references (${…}) are read in free only"},
		{"version: 1\npumps: [{name: a, code: a}]\n", "", "pumps[0].code: wants an even number of letters"},
		{"version: 1\n", "PLANT__TANK__DEPTH=10", "env PLANT__TANK__DEPTH: tank.depth: 10 is more than"},
		{"version: 1\n", "PLANT_TANK_DEPTH=5", "did you mean PLANT__TANK__DEPTH?"},
		{"version: 1\n", "plant__tank__depth=5", "is in capitals and has two underscores between its parts; did you mean PLANT__TANK__DEPTH?"},
		{"version: 1\n", "PLANT_TANK_USE=5", ""},
	} {
		_, l := load(tt.text, tt.env)
		l.CheckStray([]string{"PLANT_TANK_USE"})
		err := l.Err()
		var e *Error
		if tt.want == "" && err != nil || tt.want != "" && (!errors.As(err, &e) || !strings.Contains(err.Error(), tt.want)) {
			t.Errorf("%q %s: %v, want %s", tt.text, tt.env, err, tt.want)
		}
	}
}

// TestDecoderIsStrict gives koanf what the checks before it never let through: the second lock holds by itself.
func TestDecoderIsStrict(t *testing.T) {
	for name, raw := range map[string]map[string]any{
		"unknown key":    {"taps": map[string]any{}},
		"wrong case":     {"Name": "x"},
		"text as number": {"tank": map[string]any{"depth": "9"}},
		"bool as number": {"tank": map[string]any{"depth": true}},
		"number as text": {"name": int64(1)},
		"value as list":  {"pumps": map[string]any{"name": "x"}},
	} {
		k := koanf.New(delimiter)
		if err := k.Load(tree(raw), nil); err != nil {
			t.Fatal(err)
		}
		var c plant
		if err := k.UnmarshalWithConf("", &c, koanf.UnmarshalConf{DecoderConfig: strict()}); err == nil {
			t.Errorf("%s is taken: %+v", name, c)
		}
	}
}

// A pattern with white space at an end would match no name, since names have none there.
func TestPatternsHaveNoSpaceAtTheirEnds(t *testing.T) {
	for pattern, ok := range map[string]bool{"demo": true, "de mo": true, "demo *": true, "demo ": false, " demo": false,
		"demo\u00a0": false, "**\t": false} {
		if err := checkGlob(pattern); (err == nil) != ok {
			t.Errorf("%q: %v", pattern, err)
		}
	}
}
