package main

import (
	"compress/gzip"
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"io"
	"io/fs"
	"math/rand/v2"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/yett-dev/yett/cmd/internal/e2e"
	"github.com/yett-dev/yett/core/admin"
	"github.com/yett-dev/yett/core/testkit"
)

// leastNeedle is how many bytes of a secret are looked for.
const leastNeedle = 12

// needles are secrets in all their spellings, by their first bytes.
type needles map[[leastNeedle]byte]string

// add puts in the spellings of a secret. What is given has to be random: a form that all secrets share is found always.
func (n needles) add(what, secret string) {
	reversed := []byte(secret)
	slices.Reverse(reversed)
	var percent, escaped strings.Builder
	for _, c := range []byte(secret) {
		fmt.Fprintf(&percent, "%%%02x", c)
		fmt.Fprintf(&escaped, `\u%04x`, c)
	}
	hexed := hex.EncodeToString([]byte(secret))
	spellings := map[string]string{"raw": secret, "reversed": string(reversed), "hex": hexed,
		"HEX": strings.ToUpper(hexed), "percent": percent.String(), "PERCENT": strings.ToUpper(percent.String()),
		"escapes": escaped.String(), "ESCAPES": `\u` + strings.ReplaceAll(strings.ToUpper(escaped.String()[2:]), `\U`, `\u`)}
	for before := range 3 {
		// the digits that also hold bits of what is around it are left out
		std := base64.StdEncoding.EncodeToString([]byte(strings.Repeat("x", before) + secret))
		std = std[(before*8+5)/6 : (before+len(secret))*8/6]
		spellings[fmt.Sprint("base64 at ", before)] = std
		spellings[fmt.Sprint("base64url at ", before)] = strings.NewReplacer("+", "-", "/", "_").Replace(std)
	}
	for spelling, s := range spellings {
		n[[leastNeedle]byte([]byte(s))] = what + " as " + spelling
		// a part that begins elsewhere is found too
		n[[leastNeedle]byte([]byte(s)[len(s)-leastNeedle:])] = what + " as " + spelling
	}
}

// in says which needles are in data, and where the first is.
func (n needles) in(data []byte) (found []string) {
	for i := 0; i+leastNeedle <= len(data); i++ {
		if what, ok := n[[leastNeedle]byte(data[i:])]; ok {
			found = append(found, fmt.Sprintf("%s at %d: %.100q", what, i, data[max(0, i-60):min(len(data), i+40)]))
		}
	}
	return found
}

const alphanumeric = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"

func randomText(n int, of string) string { return textFrom(rand.IntN, n, of) }

func textFrom(intN func(int) int, n int, of string) string {
	b := make([]byte, n)
	for i := range b {
		b[i] = of[intN(len(of))]
	}
	return string(b)
}

// aSecret is one of the forms that the built-in scanner knows; core is what of it is random. They are the same in each
// run: by chance a value can look like no secret, as one of nothing but letters does, and this is about what becomes of
// what the scanner has found.
func aSecret(i int) (text, core string) {
	rng := rand.New(rand.NewPCG(1, uint64(i)))
	randomText := func(n int, of string) string { return textFrom(rng.IntN, n, of) }
	upper := alphanumeric[:36]
	switch core = randomText(40, alphanumeric); i % 8 {
	case 0:
		core = core[:36]
		return "gh" + "p_" + core, core
	case 1:
		core = core[:20]
		return "glp" + "at-" + core, core
	case 2:
		core = randomText(16, upper)
		return "AK" + "IA" + core, core
	case 3:
		return "aws_secret" + "_access_key = " + core, core
	case 4:
		core = core[:24]
		return "sk_" + "live_" + core, core
	case 5:
		core = core[:24]
		return "xo" + "xb-" + randomText(11, "123456789") + "-" + randomText(12, "123456789") + "-" + core, core
	case 6:
		core = core[:20]
		return `db_pass` + `word = "` + core + `"`, core
	default:
		core = core[:36]
		return "gh" + "s_" + core, core
	}
}

// collector takes what traces are sent, unpacked.
type collector struct {
	mu  sync.Mutex
	all []byte
}

func (c *collector) ServeHTTP(_ http.ResponseWriter, r *http.Request) {
	var in io.Reader = r.Body
	if r.Header.Get("Content-Encoding") == "gzip" {
		zr, err := gzip.NewReader(in)
		if err != nil {
			return
		}
		in = zr
	}
	body, _ := io.ReadAll(in)
	c.mu.Lock()
	defer c.mu.Unlock()
	c.all = append(c.all, body...)
}

// leaks is one run of the search.
type leaks struct {
	t       *testing.T
	s       *server
	secrets needles
	keys    []admin.NewKey
	texts   []string
	canary  string
	said    string // how every note begins

	approver string
	calls    atomic.Int64
}

var consoleOn = regexp.MustCompile(`(http://[^ "\\]+)/setup\?token=([0-9A-Za-z_-]+)`)

// TestNoSecretIsKept: a thousand keys, in everything that a request can hold, and secrets, in arguments, context,
// notes, texts and results, are in no byte of what the gateway writes or gives away: data directory, logs, metrics,
// traces, exports, backups and what is salvaged. A person's reason is kept as it was given, unless it holds a key: then
// it is refused.
func TestNoSecretIsKept(t *testing.T) {
	testkit.Slow(t, "makes a thousand keys and reads all that was written")
	spans := &collector{}
	collects := httptest.NewServer(spans)
	t.Cleanup(collects.Close)
	dir := t.TempDir()
	free, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	metrics := free.Addr().String()
	free.Close()
	for name, text := range map[string]string{
		"yett.yaml": fmt.Sprintf(`version: 1
server: {listen: "127.0.0.1:0", metrics: %q}
console: {listen: "127.0.0.1:0"}
storage: {ballast: 0B, min_free: 32MiB}
traces: {endpoint: %q, share: 1}
log: {level: debug, format: json}
plugins: {secrets: {kind: scanner, builtin: secrets, limits: {timeout: 30s}}}
audit: {checkpoints: {files: [%q], every: 1s}}
chains:
  authorize: {budget: 30s, steps: [{name: house, rules: [rules.yaml]}]}
  scan_output: {budget: 30s, steps: [{use: secrets}]}
`, metrics, collects.URL+"/v1/traces", filepath.Join(dir, "out", "checkpoints")),
		"rules.yaml": "rules:\n  - {id: reads, tools: [\"files/*\"], effect: permit}\n" +
			"  - {id: money, tools: [\"pay/*\"], effect: defer}\n",
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Mkdir(filepath.Join(dir, "out"), 0o700); err != nil {
		t.Fatal(err)
	}
	config, data := filepath.Join(dir, "yett.yaml"), filepath.Join(dir, "data")
	cache := "XDG_CACHE_HOME=" + e2e.Cache()
	l := &leaks{t: t, s: serveOn(t, config, data, cache), secrets: needles{}, canary: randomText(24, alphanumeric),
		said: "it asks for " + randomText(24, alphanumeric)}
	for range 200 {
		text, core := aSecret(len(l.texts))
		l.texts = append(l.texts, text)
		l.secrets.add(text, core)
	}
	l.make(1000)
	atOnce(8, len(l.keys), l.use)
	l.visit()
	read := func() string {
		res, err := http.Get("http://" + metrics + "/metrics")
		if err != nil {
			t.Fatal(err)
		}
		defer res.Body.Close()
		page, err := io.ReadAll(res.Body)
		if err != nil {
			t.Fatal(err)
		}
		return string(page)
	}
	l.none("metrics", []byte(read()))
	out := func(name string) string { return filepath.Join(dir, "out", name) }
	l.runs("backup", "--data", data, "--out", out("backup"))
	l.runs("backup", "--data", data, "--out", out("backup.tar"))
	l.s.kill()
	logged := l.s.stderr.String()
	l.none("data directory after kill -9", l.all(data))
	l.s = serveOn(t, config, data, cache, "YETT__LOG__FORMAT=text")
	atOnce(8, 100, l.use)
	l.none("metrics", []byte(read()))
	l.s.stop()
	l.none("log", []byte(logged+l.s.stderr.String()))
	for _, format := range []string{"jsonl", "csv", "cef", "ocsf"} {
		l.runs("audit", "export", "--data", data, "--out", out(format), "--format", format)
		text, err := os.ReadFile(out(format))
		if err != nil || !strings.Contains(string(text), l.canary) ||
			format != "cef" && !strings.Contains(string(text), l.said) { // CEF has no notes
			t.Errorf("%s has not what it must have: %v", format, err)
		}
	}
	l.runs("store", "salvage", "--data", data, "--out", out("salvaged"))
	// the segments are compressed: what they hold is in the exports, which have every record
	l.runs("store", "check", "--data", data)
	if sealed, _ := filepath.Glob(filepath.Join(data, "log", "*.seg")); len(sealed) == 0 {
		t.Error("nothing was sealed")
	}
	l.none("data directory", l.all(data))
	l.none("exports, backups, checkpoints and what was salvaged", l.all(filepath.Join(dir, "out")))
	spans.mu.Lock()
	defer spans.mu.Unlock()
	if len(spans.all) == 0 {
		t.Error("there are no traces")
	}
	l.none("traces", spans.all)
	// Tables are compressed with a method that leaves what is random as it is: a text that must be there is found.
	rows := string(l.all(filepath.Join(data, "db")))
	for _, text := range []string{l.canary, l.said} {
		if !strings.Contains(rows, text) {
			t.Errorf("%q, which a row of the database has, is not found in its files", text)
		}
	}
	l.planted(data)
}

func (l *leaks) none(where string, data []byte) {
	l.t.Helper()
	found := l.secrets.in(data)
	for _, one := range found[:min(len(found), 5)] {
		l.t.Errorf("%s (%d bytes, %d finds): %s", where, len(data), len(found), one)
	}
	if len(data) == 0 {
		l.t.Errorf("%s: there is nothing to search", where)
	}
	l.t.Logf("%s: %d bytes", where, len(data))
}

// planted sees that a secret is found in whatever spelling it is kept.
func (l *leaks) planted(data string) {
	_, core := aSecret(0)
	l.secrets.add("planted", core)
	for _, s := range []string{core, base64.StdEncoding.EncodeToString([]byte("k=" + core + "&")),
		base64.URLEncoding.EncodeToString([]byte(core)), base64.StdEncoding.EncodeToString([]byte("1" + core)),
		hex.EncodeToString([]byte(core)), strings.ToUpper(hex.EncodeToString([]byte(core)))} {
		if err := os.WriteFile(filepath.Join(data, "planted"), []byte("..."+s+"..."), 0o600); err != nil {
			l.t.Fatal(err)
		}
		if len(l.secrets.in(l.all(data))) == 0 {
			l.t.Errorf("%s is not found", s)
		}
	}
}

// all is every byte of a directory, with the names.
func (l *leaks) all(dir string) (out []byte) {
	l.t.Helper()
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || !d.Type().IsRegular() {
			return err
		}
		b, err := os.ReadFile(path)
		out = append(append(append(out, path...), '\n'), b...)
		return err
	})
	if err != nil {
		l.t.Fatal(err)
	}
	return out
}

func (l *leaks) runs(args ...string) {
	l.t.Helper()
	if out, err := exec.Command(e2e.Binary(l.t), args...).CombinedOutput(); err != nil {
		l.t.Fatalf("%v: %v: %s", args, err, out)
	} else {
		l.none(strings.Join(args[:2], " "), out)
	}
}

// make makes keys: the beginning of a value names the key, and the rest is the secret.
func (l *leaks) make(n int) {
	_, l.approver = l.s.madeKey("approver", "--preset", "approver")
	c, err := admin.Dial(l.s.Data)
	if err != nil {
		l.t.Fatal(err)
	}
	defer c.Close()
	scopes := []string{"authorize", "scan", "approve", "kill", "grants", "audit"}
	l.keys = make([]admin.NewKey, n)
	for i := range l.keys {
		req := admin.CreateRequest{Name: fmt.Sprint("key ", i), Scopes: scopes, Agents: []string{"*"}}
		if err := c.Do(l.t.Context(), "POST", "/keys", req, &l.keys[i]); err != nil {
			l.t.Fatal(err)
		}
		value := l.keys[i].Key
		l.secrets.add(l.keys[i].ID, value[strings.LastIndex(value, "_")+1:])
	}
}

// use sends the i-th key with secrets in everything that a call can hold.
func (l *leaks) use(i int) {
	key, secret := l.keys[i].Key, l.texts[i%len(l.texts)]
	send := func(path, body string, headers ...string) answer {
		a, err := l.s.send("POST", path, key, body, headers...)
		if err != nil {
			l.t.Errorf("%s: %v", path, err)
		}
		return a
	}
	args := map[string]any{"token": secret, "n": i, "say": "use " + key + " or " + secret,
		"deep": map[string]any{"list": []string{key, secret}}}
	if i%14 == 0 {
		args["pad"] = strings.Repeat(randomText(50, alphanumeric)+" ", 1000)
	}
	call := func(tool string, more map[string]any) string {
		m := map[string]any{"agent_id": "a", "tool_id": tool, "args": args, "session_id": l.canary,
			"context": map[string]any{"of": secret, "by": key}, "note": l.said + " " + key + " because " + secret}
		for k, v := range more {
			m[k] = v
		}
		return text(m)
	}
	if a := send("/v1/authorize", call("files/read", nil), "Idempotency-Key", "idem-"+secret); a.status == 401 {
		l.t.Errorf("the key is not known: %s", a.body)
	}
	switch i % 5 {
	case 0:
		send("/v1/scan_output", text(map[string]any{"tool_id": "files/read", "output": "it says " + secret + " and " + key}))
		send("/v1/authorize", call("files/"+key, map[string]any{"call_id": key, "session_id": key}))
		send("/v1/authorize", call("files/read", map[string]any{"agent_id": key}), "Idempotency-Key", key)
	case 1:
		l.approves(i, send, call, secret)
	case 2:
		a := send("/v1/actions", text(map[string]any{"agent_id": "a", "tool": "files/write", "params": args,
			"context": map[string]any{"of": secret}}))
		if id := a.str("id"); id != "" {
			send("/v1/actions/"+id+"/start", "{}")
			send("/v1/actions/"+id+"/result", text(map[string]any{"success": false, "error": secret + " " + key,
				"value": map[string]any{"out": secret}}))
		}
		send("/v1/actions/"+key, "{}")
		send("/v1/"+url.PathEscape(secret), "{}")
	case 3:
		rogue := fmt.Sprint("rogue-", i)
		send("/v1/kill", text(map[string]any{"agent_id": rogue, "reason": "it has " + key}))
		send("/v1/kill", text(map[string]any{"agent_id": rogue, "reason": "it loops"}))
		send("/v1/kill", text(map[string]any{"agent_id": rogue, "reason": key, "undo": true}))
		send("/v1/kill", text(map[string]any{"scope": "agent", "target": key, "reason": "r"}))
		send("/v1/grants", text(map[string]any{"agent_id": rogue, "tool_pattern": "pay/" + l.canary, "ttl_seconds": 3600,
			"reason": "for " + key}))
		send("/v1/grants", text(map[string]any{"agent_id": key, "tool_pattern": "pay/" + key, "ttl_seconds": 3600}))
	default:
		send("/v1/authorize", `{"agent_id": "`+key+`", "tool_id": `)
		send("/v1/authorize", text(map[string]any{key: secret, "agent_id": []string{key}}))
		send("/v1/defer/status?token="+key, "", "X-Request-Id", key, "Traceparent", key, "User-Agent", key, "Cookie", secret)
		send("/v1/authorize?key="+key, "{}", "Authorization", "Bearer "+key+"x", "X-Forwarded-For", key)
		send("/v1/authorize", call("files/read", map[string]any{"defer_token": key}))
	}
}

// approves has a call wait, approves it with other arguments, and says why.
func (l *leaks) approves(i int, send func(path, body string, headers ...string) answer,
	call func(tool string, more map[string]any) string, secret string) {
	// where the context has secrets nobody may approve other arguments
	a := send("/v1/authorize", call("pay/refund", map[string]any{"call_id": fmt.Sprint("c", l.calls.Add(1)),
		"context": nil}))
	if a.str("effect") != "DEFER" {
		l.t.Errorf("it does not wait: %s", a.body)
		return
	}
	_, _ = l.s.send("POST", "/v1/approve", l.approver, text(map[string]any{"defer_token": a.str("defer_token"),
		"approved": true, "reason": "for " + l.keys[i].Key})) // refused: see noKeys in core/ops
	for _, args := range []any{map[string]any{"token": secret, "key": l.keys[i].Key}, nil} {
		yes, err := l.s.send("POST", "/v1/approve", l.approver, text(map[string]any{"defer_token": a.str("defer_token"),
			"approved": i%2 == 0, "reason": "order checked", "modified_args": args}))
		if err != nil || args == nil && yes.status != 200 { // such arguments are refused
			l.t.Errorf("approve: %v %s", err, yes.body)
		}
	}
	send("/v1/authorize", call("pay/refund", map[string]any{"defer_token": a.str("defer_token")}))
}

// visit goes to the console with secrets in its forms.
func (l *leaks) visit() {
	for end := deadline(); !consoleOn.MatchString(l.s.stderr.String()); runtime.Gosched() {
		if deadline().Sub(end) > patience {
			l.t.Fatalf("no link to the console:\n%.2000s", l.s.stderr)
		}
	}
	at := consoleOn.FindStringSubmatch(l.s.stderr.String())
	v := &visitor{s: l.s, base: at[1]}
	password := randomText(24, alphanumeric)
	l.secrets.add("the operator's password", password)
	v.do(303, "/setup", url.Values{"token": {at[2]}, "name": {"ada"}, "password": {password}, "again": {password}})
	session := v.cookie[strings.LastIndexAny(v.cookie, "=.")+1:]
	l.secrets.add("the operator's session", session)
	own := []string{"Origin", v.base, "Sec-Fetch-Site", "same-origin"}
	for _, path := range []string{"/approvals", "/keys", "/plugins"} {
		v.do(200, path, nil)
	}
	for i := range 6 {
		post := func(path string, form url.Values) {
			req, err := http.NewRequestWithContext(l.t.Context(), "POST", v.base+path, strings.NewReader(form.Encode()))
			if err != nil {
				l.t.Fatal(err)
			}
			req.Header.Set("Content-Type", "application/x-www-form-urlencoded")
			req.Header.Set("Cookie", v.cookie)
			for i := 0; i < len(own); i += 2 {
				req.Header.Set(own[i], own[i+1])
			}
			res, err := (&http.Client{}).Do(req)
			if err != nil {
				l.t.Fatal(err)
			}
			res.Body.Close()
		}
		secret, key := l.texts[i], l.keys[i].Key
		post("/signin", url.Values{"name": {key}, "password": {secret}})
		post("/keys", url.Values{"name": {key}, "preset": {"agent"}, "csrf": {secret}})
		post("/approvals/"+key+"/deny", url.Values{"reason": {key}})
		post("/keys/"+key+"/revoke", url.Values{"confirm": {secret}})
	}
}
