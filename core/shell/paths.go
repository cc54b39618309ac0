package shell

import (
	"path"
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

// File says of which class a path is. dir is the project's directory, an absolute path; "" takes relative paths for
// those of a project.
func File(name, dir string) FileClass {
	if len(name) > MaxPath {
		return Beyond
	}
	_, class := place{dir: cleanDir(dir)}.resolve(name)
	return class
}

// place is where relative paths begin.
type place struct {
	dir string // the project's directory; "" if it is not known, nowhere if it is none
	rel string // below dir
}

// nowhere is the directory that nothing is in.
const nowhere = "\x00"

// noProjects are directories that hold what is of no project.
var noProjects = []string{"/", "/root", "/home", "/etc", "/usr", "/var", "/bin", "/sbin", "/lib", "/lib64", "/boot",
	"/dev", "/proc", "/sys", "/run", "/tmp", "/opt", "/mnt", "/media", "/Users", "/System", "/Library", "/Applications",
	"/private", "/private/tmp", "/private/etc", "/private/var", "/Volumes", "/var/lib", "/var/tmp", "/usr/local"}

// worktrees is where Claude Code checks branches out: projects of their own, in a directory that is configuration.
const worktrees = "/.claude/worktrees/"

// systemTrees are below no directory that a project may be.
var systemTrees = []string{"/etc/", "/proc/", "/sys/", "/dev/", "/boot/", "/run/", "/System/", "/Library/",
	"/bin/", "/sbin/", "/private/etc/"}

// homes hold the homes of people.
var homes = []string{"/home/", "/Users/"}

// cleanDir gives the directory of a project, nowhere if a project cannot be there.
func cleanDir(dir string) string {
	if dir == "" {
		return ""
	}
	clean := path.Clean(dir)
	parent, name := path.Split(clean)
	inTree := func(tree string) bool { return strings.HasPrefix(clean, tree) }
	switch {
	case dir[0] != '/', !isPathText(dir), slices.Contains(noProjects, clean), slices.ContainsFunc(systemTrees, inTree):
		return nowhere
	case name != "" && slices.Contains(homes, parent): // somebody's home
		return nowhere
	case strings.Contains(strings.ReplaceAll(clean, worktrees, "/"), "/."): // in a hidden directory
		return nowhere
	}
	return clean
}

// readable are directories beyond the project that hold what every user may read and what no secret is in.
var readable = []string{"/usr/include/", "/usr/share/", "/usr/lib/", "/usr/local/go/", "/usr/local/lib/",
	"/usr/src/"}

// resolve gives a path's place below the project and its class.
func (at place) resolve(name string) (string, FileClass) {
	rel, below := at.below(name)
	class := byName(name)
	if below && path.IsAbs(name) && path.Clean(name) == strings.TrimSuffix(name, "/") {
		class = byName(rel) // the names above the project tell nothing of its files
	}
	switch {
	case class != Project:
		return "", class
	case !below:
		return "", Beyond
	}
	for part := range strings.SplitSeq(rel, "/") {
		if strings.Trim(part, ".") != "" && part[0] == '.' && !slices.Contains(harmless, strings.ToLower(part)) {
			return rel, Hidden
		}
	}
	return rel, Project
}

// below gives a path's place below the project, if it is there.
func (at place) below(name string) (string, bool) {
	if name == "" || !isPathText(name) || name[0] == '~' || strings.Contains(name, "://") || at.dir == nowhere {
		return "", false
	}
	rel := path.Join(at.rel, name)
	if path.IsAbs(name) {
		under, ok := strings.CutPrefix(path.Clean(name)+"/", at.dir+"/")
		if at.dir == "" || !ok {
			return "", false
		}
		rel = path.Clean(under)
	}
	return rel, rel != ".." && !strings.HasPrefix(rel, "../")
}

// harmless are hidden files that no tool runs.
var harmless = []string{".gitignore", ".gitkeep", ".dockerignore", ".editorconfig", ".prettierrc", ".prettierignore",
	".eslintignore", ".env.example", ".env.sample", ".env.template", ".golangci.yml", ".golangci.yaml"}

// isPathText reports whether a text has one meaning as a path, on every system.
func isPathText(text string) bool {
	return len(text) <= MaxPath && !strings.ContainsFunc(text, func(r rune) bool {
		return r < ' ' || r == 0x7f || r == '\\' || r == unicode.ReplacementChar
	})
}

// What holds secrets and configuration, in lower case: file systems may not tell the cases apart.
var (
	namesOf = map[FileClass][]string{
		SecretFile: {".ssh", ".aws", ".gnupg", ".kube", ".azure", ".docker", ".password-store", "gcloud", ".vault",
			".env", ".envrc", ".netrc", "_netrc", ".pgpass", ".npmrc", ".pypirc", ".git-credentials", ".vault-token", ".my.cnf",
			".htpasswd", ".boto", ".s3cfg", "credentials", "credentials.json", "credentials.toml", "secrets.yml", "secrets.yaml",
			"secrets.json", "secrets.toml", "secrets.env", "master.key", "shadow", "gshadow", ".bash_history", ".zsh_history",
			".python_history", ".psql_history", "environ", "kubeconfig", "terraform.tfvars"},
		ConfigFile: {".claude", ".codex", ".gemini", ".copilot", ".cursor", ".opencode", ".cline", ".clinerules", ".windsurf",
			".codeium", ".yett", ".vscode", "claude-code", "gemini-cli", "github-copilot", ".claude.json", ".mcp.json",
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
	secretEnds = []string{".pem", ".key", ".p12", ".pfx", ".jks", ".keystore", ".kdbx", ".ppk", ".env", ".tfstate"}
	secretKeys = []string{"id_rsa", "id_dsa", "id_ecdsa", "id_ed25519", "service-account", "service_account"}
	publicEnds = []string{".pub", ".example", ".sample", ".template", ".dist", ".go", ".py", ".ts", ".js", ".md"}
	// whose configuration lies in which directories: .config/opencode, /etc/codex, /var/lib/yett
	configHomes = map[string][]string{
		".config": configOwners, "etc": configOwners, "application support": configOwners, "share": {"yett", "opencode"},
		"lib": {"yett"}, "run": {"yett"}, "cline": {"hooks"}, ".github": {"hooks"}}
	configOwners = []string{"yett", "opencode", "codex", "claude", "windsurf", "cursor"}
)

// byName is the class that a path has by the names in it, Project if they tell nothing.
func byName(name string) FileClass {
	class, before := Project, ""
	for part := range strings.FieldsFuncSeq(strings.ToLower(name), func(r rune) bool { return r == '/' || r == '\\' }) {
		if bare, _, _ := strings.Cut(strings.TrimRight(part, ". "), ":"); bare != "" && part != ".." {
			part = bare // Windows opens .env for ".env." and for .env::$DATA
		}
		switch {
		case classOfPart[part] == SecretFile, isSecret(part), before == ".config" && part == "gh":
			return SecretFile
		case classOfPart[part] == ConfigFile, slices.Contains(configHomes[before], part),
			before == ".github" && strings.HasPrefix(part, "copilot"):
			class = ConfigFile
		}
		before = part
	}
	return class
}

func isSecret(name string) bool {
	has := func(ends []string) bool {
		return slices.ContainsFunc(ends, func(end string) bool { return strings.HasSuffix(name, end) && name != end })
	}
	begins := func(s string) bool { return strings.HasPrefix(name, s) }
	if has(publicEnds) {
		return false
	}
	return has(secretEnds) || begins(".env.") || slices.ContainsFunc(secretKeys, begins) || begins("credentials.")
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
	_, class := at.resolve(name)
	if reads && (class == Hidden || class == Beyond && isReadable(name)) {
		return ""
	}
	return classOfFile(class)
}

func isReadable(name string) bool {
	clean := path.Clean(name) + "/"
	return slices.ContainsFunc(readable, func(dir string) bool { return strings.HasPrefix(clean, dir) })
}
