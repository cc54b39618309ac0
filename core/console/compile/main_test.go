package main

import (
	"os"
	"strings"
	"testing"
)

func TestPagesAreUpToDate(t *testing.T) {
	want, err := compile("../pages", "..")
	if err != nil {
		t.Fatal(err)
	}
	got, err := os.ReadFile("../pages.gen.go")
	if err != nil || string(got) != string(want) {
		t.Errorf("pages.gen.go is not what the templates give: run go generate ./core/console (%v)", err)
	}
}

// TestWhatIsRefused: what the compiler does not know it does not compile.
func TestWhatIsRefused(t *testing.T) {
	for text, want := range map[string]string{
		`<p>{{.Title}}</p>`:                       "",
		`<a href="/x/{{.Title}}">y</a>`:           "",
		`<p {{.Title}}>`:                          "is not known here",
		`<p class={{.Title}}>`:                    "is not known here",
		`<p onclick="{{.Title}}">`:                "is not known here",
		`<p style="color: {{.Title}}">`:           "is not known here",
		`<script>{{.Title}}</script>`:             "is not known here",
		`<p>{{index .Title 1}}</p>`:               "function \"index\" not defined",
		`<p>{{.Title | plain}}</p>`:               "is not known here",
		`<p>{{$nothing}}</p>`:                     "undefined variable",
		`<p>{{template "other" .}}</p>`:           "is not known here",
		`<p>{{break}}</p>`:                        "{{break}} outside {{range}}",
		`{{range .Title}}<p>{{break}}</p>{{end}}`: "is not known here",
	} {
		dir := t.TempDir()
		for _, p := range append(pages, [2]string{"layout"}) {
			data, err := os.ReadFile("../pages/" + p[0] + ".html")
			if err != nil {
				t.Fatal(err)
			}
			if p[0] == "refusal" {
				data = []byte(`{{define "main"}}` + text + `{{end}}`)
			}
			if err := os.WriteFile(dir+"/"+p[0]+".html", data, 0o600); err != nil {
				t.Fatal(err)
			}
		}
		_, err := compile(dir, "..")
		if (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%s: got %v, want %q", text, err, want)
		}
	}
}
