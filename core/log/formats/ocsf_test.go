package formats_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"

	"github.com/yett-dev/yett/core/log/formats"
)

// ocsf is OCSF's published schema, as far as events of ours use it: testdata says where it is from.
type ocsf struct {
	classes  map[string]*jsonschema.Schema
	captions map[string]map[string]enum // of attributes, by class
	objects  map[string]map[string]enum // and by object
	raw      map[string]any
}

// enum is an attribute with numbers whose names stand in a sibling.
type enum struct {
	Sibling  string
	Captions map[string]string
}

func ocsfSchema(t testing.TB) *ocsf {
	t.Helper()
	name := "ocsf-" + formats.OCSFVersion + ".json"
	data, err := os.ReadFile(filepath.Join("testdata", name))
	if err != nil {
		t.Fatal(err)
	}
	doc, err := jsonschema.UnmarshalJSON(bytes.NewReader(data))
	if err != nil {
		t.Fatal(err)
	}
	var also struct {
		Captions map[string]map[string]enum
		Objects  map[string]map[string]enum `json:"object_captions"`
	}
	if err := json.Unmarshal(data, &also); err != nil {
		t.Fatal(err)
	}
	s := &ocsf{classes: map[string]*jsonschema.Schema{}, captions: also.Captions, objects: also.Objects,
		raw: doc.(map[string]any)}
	c := jsonschema.NewCompiler()
	if err := c.AddResource("https://schema.test/"+name, doc); err != nil {
		t.Fatal(err)
	}
	for uid := range also.Captions {
		if s.classes[uid], err = c.Compile("https://schema.test/" + name + "#/classes/" + uid); err != nil {
			t.Fatal(err)
		}
	}
	return s
}

// check holds an event against the schema: JSON Schema, the names beside numbers, and nothing that is deprecated.
func (s *ocsf) check(line []byte) error {
	v, err := jsonschema.UnmarshalJSON(bytes.NewReader(line))
	if err != nil {
		return err
	}
	event, _ := v.(map[string]any)
	uid := fmt.Sprint(event["class_uid"])
	schema := s.classes[uid]
	if schema == nil {
		return fmt.Errorf("class %s is not in testdata", uid)
	}
	if err := schema.Validate(v); err != nil {
		return err
	}
	if got := event["metadata"].(map[string]any)["version"]; got != formats.OCSFVersion {
		return fmt.Errorf("metadata.version is %v", got)
	}
	if want := fmt.Sprintf("%v: ", event["class_name"]); !strings.HasPrefix(fmt.Sprint(event["type_name"]), want) {
		return fmt.Errorf("type_name %v, want %s…", event["type_name"], want)
	}
	if err := named(event, s.captions[uid]); err != nil {
		return err
	}
	objects := map[string]string{"entity": "managed_entity", "user": "user", "src_endpoint": "network_endpoint",
		"data_security": "data_security"}
	for name, object := range objects {
		if o, ok := event[name].(map[string]any); ok {
			if err := named(o, s.objects[object]); err != nil {
				return fmt.Errorf("%s: %w", name, err)
			}
		}
	}
	return s.current(event, s.raw["classes"].(map[string]any)[uid])
}

// named holds the names beside numbers against the schema's. Other, 99, has the source's own name.
func named(o map[string]any, enums map[string]enum) error {
	for attr, e := range enums {
		number, has := o[attr]
		name := o[e.Sibling]
		if !has {
			continue
		}
		want := e.Captions[fmt.Sprint(number)]
		own := attr != "type_uid" && fmt.Sprint(number) == "99"
		if name == nil || own && (name == "" || name == want) || !own && name != want {
			return fmt.Errorf("%s is %v, %s is %v, want %q", attr, number, e.Sibling, name, want)
		}
	}
	return nil
}

// current refuses attributes that OCSF has deprecated.
func (s *ocsf) current(v, schema any) error {
	rules, _ := schema.(map[string]any)
	if ref, ok := rules["$ref"].(string); ok {
		rules = s.raw["$defs"].(map[string]any)[strings.TrimPrefix(ref, "#/$defs/")].(map[string]any)
	}
	switch v := v.(type) {
	case []any:
		for _, item := range v {
			if err := s.current(item, rules["items"]); err != nil {
				return err
			}
		}
	case map[string]any:
		props, _ := rules["properties"].(map[string]any)
		for name, value := range v {
			if p, _ := props[name].(map[string]any); p["deprecated"] == true {
				return fmt.Errorf("%s is deprecated", name)
			}
			if err := s.current(value, props[name]); err != nil {
				return err
			}
		}
	}
	return nil
}

// Every record is an event that OCSF's own schema takes, and holds the record byte for byte.
func TestOCSF(t *testing.T) {
	s := ocsfSchema(t)
	lines := records(t)
	used := map[string]bool{}
	for i, line := range bytes.Split(bytes.TrimSuffix(convert(t, "ocsf", lines...), []byte("\n")), []byte("\n")) {
		if err := s.check(line); err != nil {
			t.Errorf("%s: %v", line, err)
		}
		var e struct {
			Class    int    `json:"class_uid"`
			Raw      string `json:"raw_data"`
			Metadata struct {
				UID      string
				Sequence int
			}
			Unmapped map[string]string
		}
		if err := json.Unmarshal(line, &e); err != nil {
			t.Fatal(err)
		}
		if e.Raw != string(lines[i]) || e.Metadata.Sequence != i+1 || e.Unmapped["store_id"] != "sto_TEST" ||
			e.Metadata.UID != fmt.Sprintf("sto_TEST/%d", i+1) {
			t.Errorf("it does not lead back to record %d: %s", i+1, line)
		}
		used[fmt.Sprint(e.Class)] = true
	}
	if want := slices.Sorted(maps.Keys(s.classes)); !slices.Equal(slices.Sorted(maps.Keys(used)), want) {
		t.Errorf("the records are of the classes %v, testdata has the schema of %v", used, want)
	}
}

// What the store itself has written in its golden log is taken too.
func TestOCSFOfTheStoresRecords(t *testing.T) {
	s := ocsfSchema(t)
	data, err := os.ReadFile(filepath.Join("..", "..", "store", "testdata", "log.golden"))
	if err != nil {
		t.Fatal(err)
	}
	lines := bytes.Split(bytes.TrimSuffix(data, []byte("\n")), []byte("\n"))
	if len(lines) < 20 {
		t.Fatalf("only %d records", len(lines))
	}
	for _, line := range lines {
		if err := s.check(bytes.TrimSuffix(convert(t, "ocsf", line), []byte("\n"))); err != nil {
			t.Errorf("%s: %v", line, err)
		}
	}
}

// The check of this file finds what it is there for.
func TestOCSFCheckFinds(t *testing.T) {
	s := ocsfSchema(t)
	good := string(bytes.TrimSuffix(convert(t, "ocsf", records(t)[2]), []byte("\n")))
	for _, c := range []struct{ from, to, want string }{
		{`"activity_id":99`, `"activity_id":98`, "activity_id"},
		{`"type_uid":600399`, `"type_uid":600301`, "type_uid"},
		{`"severity":"Informational"`, `"severity":"Info"`, "severity"},
		{`"time":`, `"when":`, "when"},
		{`"src_endpoint":{"ip":"192.0.2.1"`, `"src_endpoint":{"ip":"nowhere"`, "src_endpoint"},
		{`"src_endpoint":{"ip":"192.0.2.1",`, `"src_endpoint":{`, "src_endpoint"},
		{`"actor":{`, `"actor":{"invoked_by":"x",`, "deprecated"},
		{`"activity_name":"Authorize"`, `"activity_name":"Other"`, "activity_name"},
		{`"version":"1.8.0"`, `"version":"1.0.0"`, "metadata.version"},
		{`"class_uid":6003`, `"class_uid":6004`, "class 6004"},
	} {
		bad := strings.Replace(good, c.from, c.to, 1)
		if bad == good {
			t.Fatalf("no %s in %s", c.from, good)
		}
		if err := s.check([]byte(bad)); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: got %v, want %s", c.to, err, c.want)
		}
	}
}
