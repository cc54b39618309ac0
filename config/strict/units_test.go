package strict

import "testing"

func TestUnits(t *testing.T) {
	for _, tt := range []struct {
		in, out string
		n       int64
	}{
		{"0B", "0B", 0}, {"1B", "1B", 1}, {"1024B", "1KiB", 1024}, {"1KiB", "1KiB", 1024}, {"1536KiB", "1536KiB", 1536 << 10},
		{"4MiB", "4MiB", 4 << 20}, {"50GiB", "50GiB", 50 << 30}, {"8388607TiB", "8388607TiB", 8388607 << 40},
	} {
		s, err := ParseSize(tt.in)
		if err != nil || int64(s) != tt.n || s.String() != tt.out {
			t.Errorf("size %s: %d, %s, %v", tt.in, s, s, err)
		}
	}
	for _, tt := range []struct {
		in, out string
		n       int64
	}{
		{"0s", "0s", 0}, {"1ns", "1ns", 1}, {"50us", "50us", 50e3}, {"50ms", "50ms", 50e6}, {"10s", "10s", 10e9}, {"90s", "1m30s", 90e9},
		{"1h30m", "1h30m", 5400e9}, {"30d", "30d", 30 * 86400e9}, {"1d2h3m4s5ms6us7ns", "1d2h3m4s5ms6us7ns", 93784005006007}, {"48h", "2d", 2 * 86400e9},
	} {
		d, err := ParseDuration(tt.in)
		if err != nil || int64(d) != tt.n || d.String() != tt.out {
			t.Errorf("duration %s: %d, %s, %v", tt.in, d, d, err)
		}
	}
	for _, bad := range []string{"", "1", "B", "-1B", "+1B", "1.5MiB", "1 MiB", "1MB", "1mib", "1MiB ", "1MiB1B",
		"99999999999999999999B", "8388608TiB", "1e3B", "٣B"} {
		if s, err := ParseSize(bad); err == nil {
			t.Errorf("size %q reads as %s", bad, s)
		}
	}
	for _, bad := range []string{"", "0", "5", "s", "-1s", "1.5s", "1 s", "1S", "1s1s", "1s1m", "1m1h", "106752d",
		"99999999999999999999s", "106751d24h", "1µs", "1s "} {
		if d, err := ParseDuration(bad); err == nil {
			t.Errorf("duration %q reads as %s", bad, d)
		}
	}
}

func FuzzUnits(f *testing.F) {
	for _, s := range []string{"1MiB", "1h30m", "0s", "9223372036854775807ns", "-1B", "1d"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		if n, err := ParseSize(s); err == nil {
			if again, err := ParseSize(n.String()); err != nil || again != n || n < 0 {
				t.Errorf("%q: %d prints as %s, which reads as %d, %v", s, n, n, again, err)
			}
		}
		if n, err := ParseDuration(s); err == nil {
			if again, err := ParseDuration(n.String()); err != nil || again != n || n < 0 {
				t.Errorf("%q: %d prints as %s, which reads as %d, %v", s, n, n, again, err)
			}
		}
	})
}

func TestMeant(t *testing.T) {
	known := []string{"listen", "metrics", "deny_status", "drain"}
	for got, want := range map[string]string{
		"listn": "listen", "Listen": "listen", "lsiten": "listen", "metric": "metrics", "denystatus": "deny_status", "x": "",
		"": "", "completely_other": "",
	} {
		hint := Meant(got, known)
		if want == "" && hint != "" || want != "" && hint != `; did you mean "`+want+`"?` {
			t.Errorf("%q: %s", got, hint)
		}
	}
}
