package edge

import "testing"

func TestPathIsExact(t *testing.T) {
	for target, want := range map[string]string{
		"/": "/", "/v1/kill": "/v1/kill", "/v1/kill?a=//..": "/v1/kill", "/v1/kill?": "/v1/kill",
		"/v1/actions/act_1.x-~": "/v1/actions/act_1.x-~",
		"http://h/v1/kill":      "/v1/kill", "https://h/v1/kill?x=1": "/v1/kill", "http://h/": "/", "/..a/b..": "/..a/b..", "/?x": "/",
		"/x?u=http://h//y": "/x",
	} {
		if got, ok := Path(target); !ok || got != want {
			t.Errorf("%s: %q %v, want %q", target, got, ok, want)
		}
	}
	for _, target := range []string{
		"", "?", "//", "//v1/kill", "//v1//kill", "/v1//kill", "/v1/kill/", "/v1/./kill", "/v1/../v1/kill", "/..", "/.",
		"/v1/actions/..", "/v1/%6bill", "/v1/kil%6c",
		"/v1%2fkill", "/v1/actions/%2e%2e/kill", "/v1/actions/..%2fkill", "/v1/kill;a=b", "/v1/kill%00", "/v1\\kill", "/v1/kill#x", "http://h", "http://h?x", "http://h//v1/kill",
		"v1/kill", "*", "/v1/ki ll", "/v1/kill\x7f", "/v1/k\u00efll", "/v1/kill+", "/v1/kill:", "http:///v1//kill",
	} {
		if got, ok := Path(target); ok {
			t.Errorf("%q is taken for %q", target, got)
		}
	}
}

func FuzzPath(f *testing.F) {
	f.Add("/v1/kill")
	f.Add("http://h/v1/../kill?x")
	f.Fuzz(func(t *testing.T, target string) {
		if got, ok := Path(target); ok {
			if again, ok := Path(got); !ok || again != got {
				t.Errorf("%q: %q is read as %q, %v", target, got, again, ok)
			}
		}
	})
}
