package shell

import (
	"path"
	"regexp"
	"slices"
	"strings"
	"unicode"
)

// FileClass says where a path leads, by its text alone: a symbolic link is not followed.
type FileClass string

// The classes of files, strictest first.
const (
	SecretFile FileClass = "secrets" // by its name it holds secrets: .env, keys, credentials
	ConfigFile FileClass = "config"  // it configures Yett or an agent
	Beyond     FileClass = "outside" // not known to be in the project
	Hidden     FileClass = "hidden"  // in the project, of a name that tools run or obey: .git, .bashrc
	Project    FileClass = "project" // a file of the project
)

// File says of which class a path is. dir is the project's directory, an absolute path. Without one all is outside. A
// path may have one pair of braces at its end, as in *.{ts,tsx}, and is of the strictest class of what they give.
func File(name, dir string) FileClass {
	if len(name) > MaxPath {
		return Beyond
	}
	class := place{dir: cleanDir(dir)}.file(name)
	if odd.MatchString(name) {
		return stricter(class, Beyond)
	}
	return class
}

// odd is a path that tools of agents read in ways of their own: what has a colon as a URI or as one of several
// workspaces, and a space before a name as nothing.
var odd = regexp.MustCompile(`:|(^|/) `)

// file is the class of a path or a pattern of paths.
func (at place) file(name string) FileClass {
	m := braced.FindStringSubmatch(name)
	if m == nil {
		_, class := at.resolve(name)
		if strings.ContainsAny(name, " ,") { // some tools take several patterns in one text
			for _, piece := range strings.FieldsFunc(name, func(r rune) bool { return r == ' ' || r == ',' }) {
				class = stricter(class, byName(piece))
			}
		}
		if strings.ContainsAny(name, "{}") || wildHidden.MatchString(name) || wildUp.MatchString(name) ||
			wildDot.MatchString(name) {
			return stricter(class, Beyond)
		}
		return class
	}
	worst := Project
	for end := range strings.SplitSeq(m[2], ",") {
		_, class := at.resolve(m[1] + end)
		worst = stricter(worst, class)
	}
	return worst
}

// stricter gives the stricter of two classes.
func stricter(a, b FileClass) FileClass {
	order := []FileClass{Project, Hidden, Beyond, ConfigFile, SecretFile}
	if slices.Index(order, a) >= slices.Index(order, b) {
		return a
	}
	return b
}

// place is where relative paths begin.
type place struct {
	dir string // the project's directory; nowhere if it is none
	rel string // below dir
}

// nowhere is the directory that nothing is in.
const nowhere = "\x00"

// noProjects are directories that hold what is of no project.
var noProjects = []string{"/", "/root", "/home", "/etc", "/usr", "/var", "/bin", "/sbin", "/lib", "/lib64", "/boot",
	"/dev", "/proc", "/sys", "/run", "/tmp", "/opt", "/mnt", "/media", "/Users", "/System", "/Library", "/Applications",
	"/private", "/private/tmp", "/private/etc", "/private/var", "/Volumes", "/var/lib", "/var/tmp", "/usr/local",
	"/srv", "/data", "/export", "/net", "/workspaces", "/var/www", "/usr/src"}

// worktrees is where Claude Code checks branches out: projects of their own, in a directory that is configuration.
const worktrees = "/.claude/worktrees/"

// systemTrees are below no directory that a project may be, but for those of projectTrees.
var (
	systemTrees = []string{"/etc/", "/proc/", "/sys/", "/dev/", "/boot/", "/run/", "/System/", "/Library/", "/usr/",
		"/bin/", "/sbin/", "/lib/", "/lib64/", "/snap/", "/nix/", "/var/", "/private/", "/lost+found/", "/Applications/"}
	projectTrees = []string{"/usr/src/", "/usr/local/src/", "/var/www/", "/var/tmp/", "/var/home/", "/var/folders/",
		"/private/tmp/", "/private/var/folders/"}
)

// homes hold the homes of people, wherever they lie. What follows are directories of a home that hold no project, and
// those in which none lies either.
var (
	homes       = []string{"home", "homes", "Users"}
	noProjectIn = []string{"Library", "AppData", "snap"}
	noProjectAt = []string{"Desktop", "Documents", "Downloads", "Dropbox", "Movies", "Music", "OneDrive", "Pictures",
		"Public", "Templates", "Videos", "bin"}
)

// cleanDir gives the directory of a project, nowhere if a project cannot be there.
func cleanDir(dir string) string {
	clean := path.Clean(dir)
	if dir == "" || dir[0] != '/' || clean != strings.TrimSuffix(dir, "/") || !isPathText(dir) ||
		slices.Contains(noProjects, clean) {
		return nowhere
	}
	inTree := func(tree string) bool { return strings.HasPrefix(clean, tree) }
	if slices.ContainsFunc(systemTrees, inTree) && !slices.ContainsFunc(projectTrees, inTree) {
		return nowhere
	}
	parts := strings.Split(strings.ReplaceAll(clean, worktrees, "/"), "/")[1:]
	for i, part := range parts {
		last := i == len(parts)-1
		isHome := i > 0 && slices.Contains(homes, parts[i-1])
		inHome := i > 1 && slices.Contains(homes, parts[i-2]) || i == 1 && parts[0] == "root"
		switch {
		case strings.HasPrefix(part, "."), byName(part) == SecretFile, // hidden, or with secrets
			last && (isHome || slices.Contains(homes, part)),
			inHome && (slices.Contains(noProjectIn, part) || last && slices.Contains(noProjectAt, part)):
			return nowhere
		}
	}
	return clean
}

// readable are directories beyond the project that hold what every user may read and what no secret is in.
var readable = []string{"/usr/include/", "/usr/share/", "/usr/lib/", "/usr/local/go/", "/usr/local/lib/"}

// resolve gives a path's place below the project and its class.
func (at place) resolve(name string) (string, FileClass) {
	rel, below := at.below(name)
	class := byName(name)
	if below {
		_, in := path.Split(at.dir)
		class = stricter(byName(rel), byNameIn(in, rel))
		if !path.IsAbs(name) || path.Clean(name) != strings.TrimSuffix(name, "/") {
			class = stricter(class, byName(name))
		} // else the names above the project tell nothing of its files
	}
	switch {
	case class != Project:
		return rel, class
	case !below:
		return "", Beyond
	case isHidden(rel):
		return rel, Hidden
	}
	return rel, Project
}

// isHidden reports whether tools run or obey a file of the project, by its name.
func isHidden(rel string) bool {
	before := ""
	for part := range strings.SplitSeq(strings.ToLower(rel), "/") {
		part = bareName(part)
		switch {
		case strings.Trim(part, ".") != "" && part[0] == '.' && !slices.Contains(harmless, part),
			slices.Contains(obeyed, part), slices.Contains(gitHooks, part),
			strings.HasPrefix(part, "mise.") && strings.HasSuffix(part, ".toml"), strings.HasSuffix(part, ".code-workspace"),
			strings.HasSuffix(part, ".pth"),
			(before == "bin" || before == "sbin") && isProgram(part),
			(part == "bin" || part == "scripts") && strings.Contains(before, "env"): // of Python, found before others
			return true
		}
		before = part
	}
	return false
}

// gitHooks are the names under which git runs files of the directory that core.hooksPath names.
var gitHooks = []string{"applypatch-msg", "pre-applypatch", "post-applypatch", "pre-commit", "pre-merge-commit",
	"prepare-commit-msg", "commit-msg", "post-commit", "pre-rebase", "post-checkout", "post-merge", "pre-push",
	"reference-transaction", "push-to-checkout", "pre-auto-gc", "post-rewrite", "sendemail-validate",
	"fsmonitor-watchman", "post-index-change"}

// obeyed are files without a dot that agents obey, those that programs run code of wherever they lie, and the one that
// makes a git repository of a directory.
var obeyed = []string{"head", "claude.md", "claude.local.md", "agents.md", "agents.override.md", "agent.md",
	"gemini.md", "copilot-instructions.md", "mise", "pyvenv.cfg", "site-packages", "sitecustomize.py",
	"usercustomize.py"}

// isProgram reports whether the table has a command of a name.
func isProgram(name string) bool {
	return table()[name] != nil || slices.Contains(families, name)
}

// families are programs that the table has with a word behind them only.
var families = []string{"git", "go", "npm", "cargo", "python", "python3", "yarn", "pnpm", "pip", "pip3", "gh", "docker"}

// below gives a path's place below the project, if it is there.
func (at place) below(name string) (string, bool) {
	if name == "" || !isPathText(name) || strings.ContainsRune("~$%", rune(name[0])) || strings.Contains(name, "://") ||
		at.dir == nowhere {
		return "", false
	}
	rel := path.Join(at.rel, name)
	if path.IsAbs(name) {
		under, ok := strings.CutPrefix(path.Clean(name)+"/", at.dir+"/")
		if !ok {
			return "", false
		}
		rel = path.Clean(under)
	}
	return rel, rel != ".." && !strings.HasPrefix(rel, "../")
}

// harmless are hidden files that no tool runs.
var harmless = []string{".gitignore", ".gitkeep", ".dockerignore", ".editorconfig", ".prettierrc", ".prettierignore",
	".eslintignore", ".env.example", ".env.sample", ".env.template", ".golangci.yml", ".golangci.yaml"}

// isPathText reports whether a text has one meaning as a path, on every system. File systems leave out what is not
// printed, take ß for ss, and give CLAUDE~1 for a second name to .claude.
func isPathText(text string) bool {
	return len(text) <= MaxPath && !shortName.MatchString(text) && !strings.ContainsFunc(text, func(r rune) bool {
		return r == '\\' || r == unicode.ReplacementChar || !unicode.IsPrint(r) || strings.ContainsRune(foldsToASCII, r) ||
			unicode.In(r, unicode.Variation_Selector, unicode.Other_Default_Ignorable_Code_Point)
	})
}

var shortName = regexp.MustCompile(`~[0-9]`)

// foldsToASCII are the characters beyond ASCII that are the same as letters of ASCII where case is not told apart.
const foldsToASCII = "\u017f\u212a\u00df\u1e9e\u0130\u0131\u0149\u01f0\u1e96\u1e97\u1e98\u1e99\u1e9a" +
	"\ufb00\ufb01\ufb02\ufb03\ufb04\ufb05\ufb06"

// wildHidden is a pattern for hidden files. wildUp goes up behind a wildcard, which may stand for nothing. wildDot
// gives a dot by a set of characters. braced has one pair of braces at its end.
var (
	wildUp     = regexp.MustCompile(`[*?\[].*/\.\.(/|$)`)
	wildDot    = regexp.MustCompile(`\[[^\]/]*\.`)
	wildHidden = regexp.MustCompile(`(^|/)\.[^/]*[*?\[]`)
	braced     = regexp.MustCompile(`^([^{}]*)\{([A-Za-z0-9]+(?:,[A-Za-z0-9]+)*)\}$`)
)

// What holds secrets and configuration, in lower case: file systems may not tell the cases apart.
var (
	namesOf = map[FileClass][]string{
		SecretFile: {".ssh", ".aws", ".gnupg", ".kube", ".azure", ".docker", ".password-store", "gcloud", ".vault",
			".env", ".envrc", ".netrc", "_netrc", ".pgpass", ".npmrc", ".pypirc", ".git-credentials", ".vault-token", ".my.cnf",
			".htpasswd", ".boto", ".s3cfg", "credentials", "credentials.json", "credentials.toml", "secrets.yml", "secrets.yaml",
			"secrets.json", "secrets.toml", "secrets.env", "master.key", "shadow", "gshadow", ".bash_history", ".zsh_history",
			".python_history", ".psql_history", "environ", "kubeconfig", "auth.json", ".yarnrc", ".yarnrc.yml", ".secrets",
			".dockercfg", ".terraformrc", ".renviron"},
		ConfigFile: {".claude", ".codex", ".gemini", ".copilot", ".cursor", ".opencode", ".cline", ".clinerules", ".windsurf",
			".codeium", ".yett", ".vscode", "yett-policy", "coding-agent", "support-agent",
			"claude-code", "claudecode", "gemini-cli", "github-copilot", ".claude.json",
			".mcp.json",
			"opencode.json", "opencode.jsonc", "yett.yaml", "yett.yml", "yett.json", "yett.sock", "plugins.lock", ".cursorrules",
			".windsurfrules"},
	}
	// namesOf the other way round
	classOfPart = func() map[string]FileClass {
		out := map[string]FileClass{}
		for class, names := range namesOf {
			for _, name := range names {
				out[name] = class
			}
		}
		return out
	}()
	secretEnds = []string{".pem", ".key", ".p12", ".pfx", ".jks", ".keystore", ".kdbx", ".ppk", ".env", ".tfstate",
		".tfvars", ".tfvars.json", ".tfstate.backup", ".p8", ".env.local"}
	secretKeys = []string{"id_rsa", "id_dsa", "id_ecdsa", "id_ed25519", "service-account", "service_account"}
	publicEnds = []string{".pub", ".example", ".sample", ".template", ".dist", ".go", ".py", ".ts", ".js", ".md"}
	// whose configuration lies in which directories: .config/opencode, /etc/codex, /var/lib/yett
	configHomes = map[string][]string{
		".config": configOwners, "etc": configOwners, "application support": configOwners, "share": {"yett", "opencode"},
		"lib": {"yett"}, "run": {"yett"}, "cline": {"hooks"}, ".github": {"hooks"}}
	configOwners = []string{"yett", "opencode", "codex", "claude", "windsurf", "cursor"}
)

// byName is the class that a path has by the names in it, Project if they tell nothing.
func byName(name string) FileClass { return byNameIn("", name) }

// byNameIn is byName of a path in a directory of a name.
func byNameIn(dir, name string) FileClass {
	class, before := Project, strings.ToLower(dir)
	for part := range strings.FieldsFuncSeq(strings.ToLower(name), func(r rune) bool { return r == '/' || r == '\\' }) {
		part = bareName(part)
		switch {
		case classOfPart[part] == SecretFile, isSecret(part), before == ".config" && part == "gh",
			before == ".git" && strings.HasPrefix(part, "config"):
			return SecretFile
		case classOfPart[part] == ConfigFile, slices.Contains(configHomes[before], part),
			before == ".github" && strings.HasPrefix(part, "copilot"):
			class = ConfigFile
		}
		before = part
	}
	return class
}

// bareName is the name that Windows opens for a name in a path: .env for ".env." and for .env::$DATA.
func bareName(part string) string {
	if bare, _, _ := strings.Cut(strings.TrimRight(part, ". "), ":"); bare != "" && part != ".." {
		return bare
	}
	return part
}

func isSecret(name string) bool {
	has := func(ends []string) bool {
		return slices.ContainsFunc(ends, func(end string) bool { return strings.HasSuffix(name, end) && name != end })
	}
	begins := func(s string) bool { return strings.HasPrefix(name, s) }
	if has(publicEnds) {
		return false
	}
	return has(secretEnds) || begins(".env") || slices.ContainsFunc(secretKeys, begins) || begins("credentials.")
}

// classOfFile is the class of a command that reads a file of a class, and of one that does more than read.
func classOfFile(class FileClass) Class {
	switch class {
	case SecretFile:
		return Secrets
	case ConfigFile:
		return Config
	case Beyond:
		return Outside
	case Hidden:
		return Unknown
	}
	return ""
}

// word gives the class that a word makes a command which names it, "" if the word changes nothing.
func (at place) word(name string, reads bool) Class {
	class := at.file(name)
	if reads && (class == Hidden || class == Beyond && isReadable(name)) {
		return ""
	}
	return classOfFile(class)
}

// isReadable takes no path that goes up: links of the system lead elsewhere, and what is above them is not what the
// text says.
func isReadable(name string) bool {
	clean := path.Clean(name) + "/"
	if clean != strings.TrimSuffix(name, "/")+"/" {
		return false
	}
	return slices.ContainsFunc(readable, func(dir string) bool { return strings.HasPrefix(clean, dir) })
}
