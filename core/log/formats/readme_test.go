package formats_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"
)

// The README's table of classes is what the records of testdata are, and its columns are those of the CSV.
func TestReadme(t *testing.T) {
	guide, err := os.ReadFile("README.md")
	if err != nil {
		t.Fatal(err)
	}
	type seen struct{ classes, activities, severities map[string]bool }
	types := map[string]seen{}
	for _, line := range bytes.Split(bytes.TrimSuffix(convert(t, "ocsf", records(t)...), []byte("\n")), []byte("\n")) {
		var e struct {
			UID      int    `json:"class_uid"`
			Class    string `json:"class_name"`
			Activity string `json:"activity_name"`
			ID       int    `json:"severity_id"`
			Severity string
			Metadata struct {
				Type string `json:"event_code"`
			}
		}
		if err := json.Unmarshal(line, &e); err != nil {
			t.Fatal(err)
		}
		s, ok := types[e.Metadata.Type]
		if !ok {
			s = seen{map[string]bool{}, map[string]bool{}, map[string]bool{}}
			types[e.Metadata.Type] = s
		}
		s.classes[fmt.Sprintf("%d %s", e.UID, e.Class)] = true
		s.activities[e.Activity] = true
		s.severities[fmt.Sprint(e.ID, e.Severity)] = true
	}
	list := func(set map[string]bool, cut int) string {
		all := slices.Sorted(maps.Keys(set))
		for i := range all {
			all[i] = all[i][cut:]
		}
		return strings.Join(all, ", ")
	}
	var table strings.Builder
	for _, typ := range slices.Sorted(maps.Keys(types)) {
		s := types[typ]
		fmt.Fprintf(&table, "| `%s` | %s | %s | %s |\n", typ, list(s.classes, 0), list(s.activities, 0),
			list(s.severities, 1))
	}
	const head = "| record | class | activity | severity |\n|---|---|---|---|\n"
	if !strings.Contains(string(guide), head+table.String()) {
		t.Errorf("README.md needs this table:\n%s%s", head, table.String())
	}
	row, _, _ := strings.Cut(string(convert(t, "csv")), "\r\n")
	columns := "`" + strings.ReplaceAll(row, ",", "`, `") + "`"
	if !strings.Contains(strings.ReplaceAll(string(guide), "\n", " "), columns) {
		t.Errorf("README.md needs these columns: %s", columns)
	}
}
