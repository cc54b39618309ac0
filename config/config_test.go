package config

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"strings"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"go.yaml.in/yaml/v3"

	"github.com/yett-dev/yett/config/strict"
)

// builtins are the modules that the test files may name.
var builtins = []string{"secrets", "pii", "injection"}

// golden compares got with a file, or writes the file when GOLDEN=write.
func golden(t *testing.T, path string, got []byte) {
	t.Helper()
	if os.Getenv("GOLDEN") == "write" {
		if err := os.WriteFile(path, got, 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatalf("%v (GOLDEN=write makes it)", err)
	}
	if !bytes.Equal(got, want) {
		t.Errorf("%s differs (GOLDEN=write rewrites it)\n--- got\n%s\n--- want\n%s", path, got, want)
	}
}

func files(t *testing.T, pattern string) []string {
	t.Helper()
	list, err := filepath.Glob(filepath.Join("testdata", pattern))
	if err != nil || len(list) == 0 {
		t.Fatalf("no files %s: %v", pattern, err)
	}
	return list
}

// verdict is what `config check` would say of a file: what Load refuses, or what Check finds.
func verdict(src Sources) string {
	c, err := Load(src)
	if err != nil {
		return err.Error() + "\n"
	}
	var b strings.Builder
	for _, p := range c.Check() {
		b.WriteString(p.String() + "\n")
	}
	return b.String()
}

func TestBadFiles(t *testing.T) {
	for _, path := range files(t, "*.bad.*") {
		if filepath.Ext(path) == ".err" {
			continue
		}
		t.Run(filepath.Base(path), func(t *testing.T) {
			got := verdict(Sources{File: path, Builtins: builtins})
			if got == "" {
				t.Fatal("nothing was found wrong")
			}
			golden(t, strings.TrimSuffix(path, filepath.Ext(path))+".err", []byte(got))
		})
	}
}

func TestGoodFiles(t *testing.T) {
	schema := compileSchema(t)
	for _, path := range files(t, "*.good.*") {
		t.Run(filepath.Base(path), func(t *testing.T) {
			if got := verdict(Sources{File: path, Builtins: builtins}); got != "" {
				t.Errorf("problems:\n%s", got)
			}
			data, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			var doc any
			read := yaml.Unmarshal
			if filepath.Ext(path) == ".json" {
				read = json.Unmarshal
			}
			if err := read(data, &doc); err != nil {
				t.Fatal(err)
			}
			if err := schema.Validate(doc); err != nil {
				t.Errorf("the schema refuses it: %v", err)
			}
		})
	}
}

func compileSchema(t *testing.T) *jsonschema.Schema {
	t.Helper()
	doc, err := jsonschema.UnmarshalJSON(bytes.NewReader(Schema()))
	if err != nil {
		t.Fatal(err)
	}
	c := jsonschema.NewCompiler()
	if err := c.AddResource("yett.json", doc); err != nil {
		t.Fatal(err)
	}
	s, err := c.Compile("yett.json")
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// TestLayers runs testdata/layers/*.txt: files, env (one NAME=value a line), flags (a YAML map), defaults, and serve if
// present; "want" is what is printed, or the error.
func TestLayers(t *testing.T) {
	for _, path := range files(t, "layers/*.txt") {
		t.Run(filepath.Base(path), func(t *testing.T) {
			src := sourcesOf(t, path)
			var out bytes.Buffer
			c, err := Load(src)
			if err != nil {
				out.WriteString(err.Error() + "\n")
			} else if err := c.Print(&out, false); err != nil {
				t.Fatal(err)
			}
			golden(t, strings.TrimSuffix(path, ".txt")+".want", out.Bytes())
		})
	}
}

var partHead = regexp.MustCompile(`(?m)^-- (\S+) --\n`)

// sourcesOf cuts a file at its "-- name --" lines.
func sourcesOf(t *testing.T, path string) Sources {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	src := Sources{Files: map[string][]byte{}, Builtins: builtins}
	heads := partHead.FindAllSubmatchIndex(data, -1)
	for i, h := range heads {
		end := len(data)
		if i+1 < len(heads) {
			end = heads[i+1][0]
		}
		name, body := string(data[h[2]:h[3]]), data[h[1]:end]
		switch name {
		case "env":
			src.Env = strings.Split(strings.TrimSuffix(string(body), "\n"), "\n")
		case "flags":
			if err := yaml.Unmarshal(body, &src.Flags); err != nil {
				t.Fatal(err)
			}
		case "defaults":
			src.Default = body
		case "serve":
			src.Serve = true
		default:
			if strings.HasPrefix(name, "yett.") {
				src.File = name
			}
			src.Files[name] = body
		}
	}
	return src
}

func TestGolden(t *testing.T) {
	var ref bytes.Buffer
	if err := Default().Print(&ref, true); err != nil {
		t.Fatal(err)
	}
	golden(t, "yett.yaml", ref.Bytes())
	golden(t, filepath.Join("testdata", "schema.json"), Schema())
}

func TestReferenceReadsBackAsDefaults(t *testing.T) {
	c, err := Load(Sources{File: "yett.yaml"})
	if err != nil {
		t.Fatal(err)
	}
	if diff := Default().Diff(c); len(diff) != 0 {
		t.Errorf("the reference file changes %v", diff)
	}
	if c.Hash() != Default().Hash() {
		t.Error("the reference file has another hash than the defaults")
	}
}

// TestReferenceShowsEveryKey uncomments all of the reference file and walks the structs over it.
func TestReferenceShowsEveryKey(t *testing.T) {
	data, err := os.ReadFile("yett.yaml")
	if err != nil {
		t.Fatal(err)
	}
	var lines []string
	for _, line := range strings.Split(string(data), "\n") {
		lines = append(lines, strings.TrimSpace(strings.ReplaceAll(line, "#", " ")))
	}
	text := "\n" + strings.Join(lines, "\n")
	var walk func(t reflect.Type, key string)
	walk = func(typ reflect.Type, key string) {
		for _, f := range keyed(typ) {
			name := f.Tag.Get("koanf")
			if !strings.Contains(text, "\n"+name+":") {
				t.Errorf("%s is not in the reference file", strict.Join(key, name))
			}
			if doc := f.Tag.Get("doc"); !strings.HasSuffix(doc, ".") {
				t.Errorf("%s has no documentation that ends in a full stop", strict.Join(key, name))
			}
			_, hasDefault := f.Tag.Lookup("default")
			if e := elem(f.Type); isSection(e) {
				walk(e, strict.Join(key, name))
			} else if !hasDefault && f.Tag.Get("example") == "" && e != valuesType {
				t.Errorf("%s has neither a default nor an example", strict.Join(key, name))
			}
		}
	}
	walk(reflect.TypeFor[Config](), "")
	walk(reflect.TypeFor[rulesFile](), "")
}

var valuesType = reflect.TypeFor[Values]()

// keyed lists the fields of a section that are keys.
func keyed(t reflect.Type) (out []reflect.StructField) {
	for i := range t.NumField() {
		if key := t.Field(i).Tag.Get("koanf"); key != "" && key != "-" {
			out = append(out, t.Field(i))
		}
	}
	return out
}

func isSection(t reflect.Type) bool { return t.Kind() == reflect.Struct && t != valuesType }

func elem(t reflect.Type) reflect.Type {
	if t.Kind() == reflect.Slice || t.Kind() == reflect.Map {
		return t.Elem()
	}
	return t
}

func TestSchemaRefusesWhatLoadRefuses(t *testing.T) {
	schema := compileSchema(t)
	for _, doc := range []string{
		`{"version":1,"sevrer":{}}`, `{"version":2}`, `{"limits":{"depth":"64"}}`, `{"limits":{"depth":3}}`,
		`{"server":{"drain":5}}`, `{"server":{"drain":"5"}}`, `{"plugins":{"Bad":{"kind":"scanner"}}}`,
		`{"plugins":{"a":{}}}`, `{"chains":{"authorize":{"steps":[{"on_error":"permit"}]}}}`,
	} {
		var v any
		if err := json.Unmarshal([]byte(doc), &v); err != nil {
			t.Fatal(err)
		}
		if schema.Validate(v) == nil {
			t.Errorf("the schema takes %s", doc)
		}
		if _, err := Load(Sources{File: "yett.json", Files: map[string][]byte{"yett.json": []byte(doc)}}); err == nil {
			t.Errorf("Load takes %s", doc)
		}
	}
}
