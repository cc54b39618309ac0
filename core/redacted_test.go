package core

import (
	"strings"
	"testing"
)

// join puts a credential together, so that no file holds one.
func join(parts ...string) string { return strings.Join(parts, "") }

// What looks like a key or a secret never reaches the log; what does not stays as it is.
func TestRedacted(t *testing.T) {
	long := strings.Repeat("Ab3", 14)
	for _, secret := range []string{
		join("Bearer ", long), join("Authorization: basic ", "dXNlcjpw", "YXNz"),
		join("postgres://user:", "s3cret!", "@db/x"), join("ey", "J", long, ".ey", "J", long, ".", long),
		join("-----BEGIN RSA PRIVATE", " KEY-----MIIE", long), join("gh", "p_", long), join("AK", "IA", "ABCDEFGH23456789"),
		join("db_password=", "hunter2x"), join(`{"api_key":"`, "hunter2x", `"}`), join("secret: ", "hunter2x"),
		join("password='", "hunter", "'"), join("my_secret=", "hunterhunter"),
		join(`password="two `, `hunter"`), join(`password = 'it\'s `, `hunter'`), join(`password="two\"hunter`, ` hunter`),
		join(`{\"password\":\"two `, `hunter\"}`), join("secret: \"a\n", `hunter" `),
		join(`password="abc\`), join("password=\"abc\\\n", `hunter"`), join(`{\"password\":\"aaaa\\\"`, `hunter\"}`),
		join(`password='aaaa''`, `hunter'`), join("password=`aaaa ", "hunter`"), join(`"secret":["aaaa","`, `hunter"]`),
		join(`{"secret":{"a":["aaaa","`, `hunter"]}}`), join("password=\"", "hunter\\\\\""), join("password: ", "hunter"),
		join("wh", "sec_", long), join("secret_key=", "hunter"), join("token=", "hunter"), join("password=abc,", "hunter"),
		join(`{"token":"`, `hunter"}`), join("refresh_token: ", "hunter"),
		join("X-Vault-Token: ", "hunter"), join("id_token=", "hunter"), join(`{"accessToken":"`, `hunter"}`),
		join("refreshToken=", "hunter"), join("authToken: ", "hunter"), join("bottoken=", "hunter"),
		join("s3_access_token=", "hunter"), join("OAUTH2_REFRESH_TOKEN=", "hunter"), join("--token=", "hunter"),
		join("/setup?password=", "hunter"), join("password=abc;", "hunter&aaaa"),
	} {
		got := Redacted("", "it said "+secret+" and went on")
		for _, part := range []string{long, "s3cret!", "hunter", "YXNz", "abc", "aaaa", "ABCDEFGH23456789"} {
			if strings.Contains(got, part) {
				t.Errorf("%s", got)
			}
		}
		if !strings.Contains(got, masked) || !strings.HasPrefix(got, "it said ") {
			t.Errorf("%s", got)
		}
	}
	for _, plain := range []string{"serving on http://127.0.0.1:8420, data in /var/lib/yett",
		"plugins.x.secrets.api_key: needs exactly one of file and env",
		"the first operator signs up here: http://127.0.0.1:1/setup?token=" + long,
		"2 of its secrets lie in /tmp/x until it ends", "the basic form", "https://example.com:8443/a@b",
		"ID key_01 of line 7", "unexpected token: x", "defer_token=dfr_01", "tokens: 5", `{"defer_token":"dfr_01"}`} {
		if got := Redacted("", plain); got != plain {
			t.Errorf("%s\nbecame %s", plain, got)
		}
	}
	for text, want := range map[string]string{
		join(`password="`, `two words" user="x"`): `password="[SECRET]" user="x"`,
		join(`{\"api_key\":\"a\\\"b\",\"x\":1}`):  `{\"api_key\":\"[SECRET]\",\"x\":1}`,
		join("password='a''b' and 'c'"):           "password='[SECRET]' and 'c'",
		join("password=a, secret=b; x"):           "password=[SECRET], secret=[SECRET]; x",
		join("token=a,user=b&c: d"):               "token=[SECRET],user=b&c: d",
		join("password=a,b,secret:\"c\", x=1"):    "password=[SECRET],secret:\"[SECRET]\", x=1",
		`password="" x`:                           `password="" x`,
		"api_key: is missing":                     "api_key: is missing",
		"api_key: isolated":                       "api_key: [SECRET]",
		join(`"secret":["a","b"],"x":1`):          `"secret":[[SECRET]],"x":1`,
	} {
		if got := Redacted("", text); got != want {
			t.Errorf("%s became %s, want %s", text, got, want)
		}
	}
	for name, want := range map[string]string{"password": masked, "api_token": masked, "Authorization": masked,
		"user": "x"} {
		if got := Redacted(name, "x"); got != want {
			t.Errorf("%s is %s", name, got)
		}
	}
}

// Whatever the text, masking ends, and what is masked once stays so.
func FuzzRedacted(f *testing.F) {
	for _, seed := range []string{`password="two words"`, `{\"secret\":\"a\\\"b\"}`, "api_key: [", "secret='",
		"password=`a"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		if got := Redacted("", text); len(got) > 16*len(text)+len(masked) {
			t.Errorf("%q became %q", text, got)
		}
	})
}
