package shell

import (
	"os"
	"slices"
	"strings"
	"testing"
)

const home = "/srv/me/p"

// cases are the lines of testdata/lines.txt with their class.
func cases(t testing.TB) [][2]string {
	t.Helper()
	text, err := os.ReadFile("testdata/lines.txt")
	if err != nil {
		t.Fatal(err)
	}
	var out [][2]string
	for line := range strings.SplitSeq(strings.TrimSuffix(string(text), "\n"), "\n") {
		if class, command, ok := strings.Cut(line, "\t"); ok {
			out = append(out, [2]string{class, command})
		}
	}
	if len(out) < 300 {
		t.Fatalf("only %d lines", len(out))
	}
	return out
}

func TestLines(t *testing.T) {
	for _, c := range cases(t) {
		line := ReadLine(c[1], home)
		if string(line.Class) != c[0] {
			t.Errorf("%s\nis %s, want %s", c[1], line.Class, c[0])
		}
		if !line.Simple && line.Words != nil {
			t.Errorf("%s: not simple, but has words %q", c[1], line.Words)
		}
	}
}

// TestEveryCommand: no entry of the table is above reading, with an option that nobody has.
func TestEveryCommand(t *testing.T) {
	entries, err := readTable(commandsText)
	if err != nil {
		t.Fatal(err)
	}
	if len(entries) < 300 {
		t.Fatalf("%d commands", len(entries))
	}
	classes := []Class{Read, Write, Test, Network, Push, Install, Destroy, Privilege, Secrets, Config}
	for key, list := range entries {
		for _, e := range list {
			if !slices.Contains(classes, e.class) {
				t.Errorf("%s: unknown class %q", key, e.class)
			}
			if slices.ContainsFunc(list, func(e entry) bool { return e.mode == "name" || e.mode == "any" }) {
				continue
			}
			for _, opt := range []string{" --no-such-option", " -\u00a7", " '--no-such=x'"} {
				if got := ReadLine(key+opt, home); got.Class != Unknown {
					t.Errorf("%s: %s", key+opt, got.Class)
				}
			}
		}
	}
	for _, bad := range []string{"read paths", "read nothing ls", "read paths a b c d", "read paths a , b | -x",
		"read paths a , b | getopt", "read paths a | -xy:", "read paths a | -xy/", "read paths a | -x=", "read paths a | x",
		"read paths a | -x -x", "read paths a | --x=y", "read paths a | -"} {
		if _, err := readTable(bad); err == nil {
			t.Errorf("%q was read", bad)
		}
	}
}

func TestDirectories(t *testing.T) {
	for _, c := range []struct{ line, dir, class string }{
		{"cat a.go", "", "unknown"},
		{"cat ../a.go", "", "unknown"},
		{"cat /srv/me/p/a.go", "", "unknown"},
		{"cat /srv/me/p/a.go", "/srv/me/p/", "read"},
		{"cat /srv/me/p2/a.go", home, "outside"},
		{"cat /srv/me/p/../q/a.go", home, "outside"},
		{"cat /app/a.go", "/app", "read"},
		{"cat a.go", "/", "outside"},
		{"cat a.go", "/home/" + "me", "outside"},
		{"cat a.go", "/root", "outside"},
		{"cat a.go", "/etc/x", "outside"},
		{"cat a.go", "relative", "unknown"},
		{"cat config", "/srv/me/p/.git", "outside"},
		{"grep -r PRIVATE", "/root" + "/.ssh", "outside"},
		{"rg -n PASSWORD", "/root", "outside"},
		{"make", "/root", "outside"},
		{"ls", "/var/home/" + "me", "outside"},
		{"ls", "/mnt/c/Users/" + "me", "outside"},
		{"ls", "/home/" + "me/Downloads", "outside"},
		{"ls", "/home/" + "me/.config", "outside"},
		{"ls", "/Users/" + "me/Library/Keychains", "outside"},
		{"ls", "/home/" + "me/Documents/p", "read"},
		{"ls", "/root" + "/p", "read"},
		{"ls", "/root" + "/Downloads", "outside"},
		{"ls", "/var/lib/yett", "outside"},
		{"ls", "/var/www/shop", "read"},
		{"ls", "/etc", "outside"},
		{"ls", "/srv", "outside"},
		{"ls", "/app", "read"},
		{"ls", "/srv/shop/../../etc", "outside"},
		{"ls", "/srv/shop/", "read"},
		{"echo x", "/", "outside"},
		{"git fetch", "/root", "outside"},
		{"ls", "C:\\srv\\shop", "unknown"},
		{`echo 'a & del x & echo b'`, "C:/srv/shop", "unknown"},
		{"rm x", "", "destroy"},
		{"touch hooks/x", "/home/" + "me/Documents/Cline", "config"},
		{"cat id", "/srv/me/.ssh", "outside"},
		{"touch a", "/srv/me/p/.claude/worktrees/x", "write"},
		{"touch /srv/me/p/.claude/worktrees/x/a", "/srv/me/p/.claude/worktrees/x", "write"},
		{"touch /srv/me/p/.claude/settings.json", "/srv/me/p/.claude/worktrees/x", "config"},
		{"cat /srv/me/credentials/a.go", "/srv/me/credentials", "secrets"},
		{"ls", "/srv/me/credentials", "outside"},
		{"cat /srv/me/credentials/a.go", home, "secrets"},
		{"go test ./...", "", "unknown"},
		{"git status", "/", "outside"},
	} {
		if got := ReadLine(c.line, c.dir).Class; string(got) != c.class {
			t.Errorf("%s in %q is %s, want %s", c.line, c.dir, got, c.class)
		}
	}
}

func TestWords(t *testing.T) {
	line := ReadLine(`rg 'a"b' "c'd\\e\f" g' h'"'i" 2>&1`, home)
	want := []string{"rg", `a"b`, `c'd\e\f`, "g h'i"}
	if !line.Simple || !slices.Equal(line.Words, want) {
		t.Errorf("%v %q, want %q", line.Simple, line.Words, want)
	}
	if line := ReadLine("cat a > b", home); line.Simple {
		t.Error("a line that writes a file is simple")
	}
	if line := ReadLine("ls", ""); line.Simple || line.Words != nil || line.Class != Unknown {
		t.Errorf("without a directory: %+v", line)
	}
	if line := ReadLine("ls # "+strings.Repeat("x", MaxLine), home); line.Class != Unknown {
		t.Error("a long line was read")
	}
	if line := ReadLine(strings.Repeat("ls;", maxCommands+1), home); line.Class != Unknown {
		t.Error("a line of many commands was read")
	}
}

func TestMentions(t *testing.T) {
	for _, c := range []struct{ line, mentions string }{
		{"ls", "read"},
		{"git status && git push", "push read"},
		{`bash -c "yett kill --all"`, "config unknown"},
		{"y\"et\"t kill $X", "config unknown"},
		{"FOO=1 /opt/yett/bin/yett keys", "config unknown"},
		{"cd /srv/me/yett && FOO=1 make test", "test unknown"},
		{"for f in *; do grep yett $f; done", "unknown"},
		{"x=$(cat ~/.ssh/id_rsa)", "secrets unknown"},
		{"echo e30K > ~/.claude/settings.json", "config unknown"},
		{"find . -exec sudo rm {} +", "destroy privilege unknown"},
		{"ls | xargs -n1 rm -rf", "destroy read unknown"},
		{"git -c a=b push --force", "destroy unknown"},
		{"timeout 5 curl -o x https://x.y", "network unknown"},
		{"if true; then npm install; fi", "install unknown"},
		{`python3 -c "cursor = db.cursor(); cursor.execute(q)"`, "unknown"},
		{`python3 -c "import os; os.system('yett kill')"`, "config unknown"},
		{`python3 -c "run(['yett', 'kill'])"`, "config unknown"},
		{"docker build -t yett .", "unknown"},
		{"find /srv/yett -name x -exec cat {} +", "unknown"},
		{"find . -name '*.go' | xargs grep yett", "read unknown"},
		{"bash -c 'cd x && grep yett y'", "unknown"},
		{"sudo yett kill", "config privilege"},
		{"rm -rf x .claude/settings.json", "config destroy"},
		{"npx yett", "config install"},
		{"git push origin yett", "push"},
		{"cat .env /etc/yett/rules.yaml", "config secrets"},
		{"bash -lc 'sudo ls'", "privilege unknown"},
		{"ssh host sudo ls", "network privilege"},
		{"env A=1 B=2 rm x", "destroy unknown"},
		{"nice -n 5 yett kill", "config unknown"},
		{"fd -e go -x rm", "destroy unknown"},
		{strings.Repeat("x", MaxLine+1), "unknown"},
		{"", "unknown"},
	} {
		var got []string
		for _, m := range ReadLine(c.line, home).Mentions {
			got = append(got, string(m))
		}
		if strings.Join(got, " ") != c.mentions {
			t.Errorf("%s\nmentions %v, want %s", c.line, got, c.mentions)
		}
	}
}

func TestFile(t *testing.T) {
	for name, want := range map[string]FileClass{
		"a.go": Project, "src/a.go": Project, "/srv/me/p/a.go": Project, "./src/../a.go": Project, ".gitignore": Project,
		".env.example": Project, "src/environment.go": Project, "src/keys/public.pub": Project, "...": Project,
		"lib/cursor/a.go": Project, "src/hooks/use.ts": Project,
		"head.go": Project, "src/*.ts": Project, "src/*.{ts,tsx}": Project, "agents/a.md": Project, "bin/tool": Project,
		"environment/a.go": Project,
		"sub/HEAD":         Hidden, "CLAUDE.md": Hidden, "x/agents.MD": Hidden, "bin/ls": Hidden, "venv/bin/x": Hidden,
		"opencode.j\u017fon": Beyond, "a/GIT~1/x": Beyond, "\u00dfh": Beyond, ".g\ufe0fit/x": Beyond, ".g\u034fit/x": Beyond,
		"HEAD.": Hidden, "CLAUDE.md::x": Beyond, ".g\u200cit/x": Beyond, "{.e,x}nv": Beyond,
		"{..,x}/a": Beyond, "x{a,../b}": Beyond, ".e*": Beyond, "src/.[e]nv": Beyond, "x{a,b": Beyond,
		"**/../x": Beyond, "a/*/..": Beyond, "$HOME/x": Beyond, "%APPDATA%/x": Beyond, "src/$id.tsx": Project,
		"a b,c.go": Project, "*.ts .env": SecretFile, "*.ts,.env": SecretFile, "x,.claude/y": ConfigFile,
		".git/config.worktree": SecretFile, "/Library/Application Support/ClaudeCode/managed-settings.json": ConfigFile,
		"*.{env,ts}": SecretFile, ".env-prod": SecretFile, ".envs/prod": SecretFile, ".git/config": SecretFile,
		"auth.json": SecretFile, "x.tfvars.json": SecretFile, ".yarnrc.yml": SecretFile, "cline/hooks/x": ConfigFile,
		"": Beyond, "../a.go": Beyond, "/etc/passwd": Beyond, "~/a": Beyond, "/srv/me/p/../../x": Beyond, "a\x00b": Beyond,
		`C:\x`: Beyond, "https://x.y/z": Beyond, "file:///etc/passwd": Beyond, "a\nb": Beyond,
		".git/hooks/pre-commit": Hidden, ".github/workflows/ci.yml": Hidden, "x/.bashrc": Hidden, ".husky/pre-push": Hidden,
		".env": SecretFile, "a/.ENV.local": SecretFile, "~/.ssh/config": SecretFile, "server.PEM": SecretFile,
		"/srv/me/.aws/credentials": SecretFile,
		"id_ed25519":               SecretFile, ".npmrc": SecretFile,
		"/proc/1/environ": SecretFile,
		"secrets.yaml":    SecretFile, "terraform.tfstate": SecretFile, "service-account-prod.json": SecretFile,
		".claude/settings.json": ConfigFile, "~/.codex/config.toml": ConfigFile, ".github/hooks/x.json": ConfigFile,
		"yett.yaml": ConfigFile, "/etc/yett/rules.yaml": ConfigFile, "~/.config/opencode/opencode.json": ConfigFile,
		".mcp.json": ConfigFile, ".cursor/hooks.json": ConfigFile, "/etc/codex/requirements.toml": ConfigFile,
		".GitHub/Copilot-instructions.md": ConfigFile,
		"file:/srv/me/p/%2Eenv":           Beyond, "@front:../../etc/x": Beyond,
		" .git/hooks/pre-commit": Beyond, "a/ .git/x": Beyond,
		"[.][.]/v/*": Beyond, "mise.local.toml": Hidden, "mise/config.toml": Hidden, "githooks/pre-commit": Hidden,
		"v/site-packages/x.pth": Hidden, "x.code-workspace": Hidden, "a.env.local": SecretFile, "AuthKey.p8": SecretFile,
	} {
		if got := File(name, home); got != want {
			t.Errorf("%q is %s, want %s", name, got, want)
		}
	}
}

func TestPatchFiles(t *testing.T) {
	files, err := PatchFiles("*** Begin Patch\n*** Update File: a.go\n*** Move to: b.go\n@@\n-x\n+y\n" +
		"*** Add File: c d.go\n+*** x\n" +
		"  *** Delete File: ../e\r\n" +
		"\ufeff*** Update File: f\ufeff\n x\u2028*** Add File: g\n*** End of File\n*** End Patch\n")
	if want := []string{"a.go", "b.go", "c d.go", "../e", "f", "g"}; err != nil || !slices.Equal(files, want) {
		t.Errorf("%q, %v", files, err)
	}
	for _, bad := range []string{"", "hello", "*** Begin Patch\n*** End Patch", "*** Update File: a\n*** Rename: x",
		"*** Add File:", "*** Update File: a\n***", strings.Repeat("*** Add File: a\n", maxPatchFiles+1),
		"*** Add File: a\n" + strings.Repeat("x", maxPatch)} {
		if files, err := PatchFiles(bad); err == nil {
			t.Errorf("%.40q: %q", bad, files)
		}
	}
}
