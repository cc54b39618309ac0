package lint

import (
	"bytes"
	"fmt"
	"go/ast"
	"path"
	"regexp"
	"strings"
)

// shapes are what credentials look like. They are put together here, so that this file holds none.
var shapes = []struct {
	name string
	re   *regexp.Regexp
}{
	{"a GitHub token", regexp.MustCompile(`\bgh` + `[pousr]_[0-9A-Za-z]{36}|\bgithub` + `_pat_[0-9A-Za-z_]{60,}`)},
	{"a GitLab token", regexp.MustCompile(`\bgl` + `pat-[0-9A-Za-z_-]{20}`)},
	{"an AWS key id", regexp.MustCompile(`\b(AK` + `IA|AS` + `IA)[0-9A-Z]{16}\b`)},
	{"a Slack token", regexp.MustCompile(`\bxo` + `x[abeoprs]-[0-9]{6,}-[0-9A-Za-z-]{10,}`)},
	{"a Stripe key", regexp.MustCompile(`\b[sr]k_li` + `ve_[0-9A-Za-z]{16,}`)},
	{"a Google key", regexp.MustCompile(`\bAI` + `za[0-9A-Za-z_-]{35}`)},
	{"an npm token", regexp.MustCompile(`\bnp` + `m_[0-9A-Za-z]{36}\b`)},
	{"a JSON Web Token", regexp.MustCompile(`\bey` + `J[0-9A-Za-z_-]{12,}\.ey` + `J[0-9A-Za-z_-]{12,}\.[0-9A-Za-z_-]{16,}`)},
	{"a private key", regexp.MustCompile(`-----BEGIN [A-Z ]*PRIVATE` + ` KEY-----\s*[0-9A-Za-z+/=]{20}`)},
	{"one of our keys", regexp.MustCompile(`\bye` + `tt_[0-9A-Za-z]{12}_[0-9A-Za-z]{49}\b`)},
}

func noSecrets(tr *tree) []string {
	var out []string
	for _, f := range tr.files {
		for _, s := range shapes {
			for _, loc := range s.re.FindAllIndex(f.src, -1) {
				line := 1 + bytes.Count(f.src[:loc[0]], []byte("\n"))
				out = append(out, fmt.Sprintf("%s:%d: looks like %s: a test puts such values together when it runs; a real one "+
					"has to be revoked now", f.path, line, s.name))
			}
		}
	}
	return out
}

// machine matches paths of the machine that something was written on. /home/… of an example user is one too.
var machine = regexp.MustCompile(`(^|[\s"'=(:` + "`" + `])/(wo` + `rk|ro` + `ot|ho` + `me/[a-z]+|Us` +
	`ers/[A-Za-z]+|tm` + `p/[a-z]+-[a-z]+)/`)

func noMachinePaths(tr *tree) []string {
	var out []string
	for _, f := range tr.files {
		if strings.Contains("/"+f.path, "/testdata/") || strings.HasPrefix(f.path, "scanners/") {
			continue // what tools put out holds paths of all sorts
		}
		for _, at := range f.grep(machine) {
			out = append(out, at+"names a path of one machine: make it relative, a flag or a variable")
		}
	}
	return out
}

var planNames = regexp.MustCompile(`(?i)(^|[-_.])(phase|issue|ticket|sprint|milestone|wip|copy|bak|orig|new|old|final|fixes|[p][0-9]+)[-_0-9]*([-_.]|$)`)

func fileNames(tr *tree) []string {
	var out []string
	for _, f := range tr.files {
		base := path.Base(f.path)
		testdata := strings.Contains("/"+f.path, "/testdata/")
		switch {
		case !testdata && planNames.MatchString(base):
			out = append(out, f.path+": named after a plan or a draft: name it after the noun or verb inside")
		case strings.HasSuffix(base, ".go") && base != strings.ToLower(base), strings.ContainsAny(base, " \\:*?\"<>|"):
			out = append(out, f.path+": an odd file name: lower case, no spaces")
		}
	}
	return out
}

// errorCodes wants a status for each code of the registry: without one it would be answered as internal.
func errorCodes(tr *tree) []string {
	rows := map[string]bool{}
	var codes []*ast.Ident
	for _, f := range tr.goFiles(false) {
		if f.path != "sdk/errors.go" && f.path != "sdk/wire/errors.go" {
			continue
		}
		ast.Inspect(f.ast, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.ValueSpec:
				if id, ok := n.Type.(*ast.Ident); ok && id.Name == "Code" {
					codes = append(codes, n.Names...)
				}
			case *ast.KeyValueExpr:
				if sel, ok := n.Key.(*ast.SelectorExpr); ok {
					rows[sel.Sel.Name] = true
				}
			}
			return true
		})
	}
	var out []string
	for _, c := range codes {
		if !rows[c.Name] {
			out = append(out, tr.at(c)+c.Name+" has no row in Statuses of sdk/wire/errors.go: say its HTTP status and "+
				"title there")
		}
	}
	return out
}

// scannerSections are the headings that each scanner's README has, in this order, so that all read the same.
var scannerSections = []string{"Name", "Description", "Config", "Findings", "Examples", "Limits"}

func scannerFolders(tr *tree) []string {
	folders, have := map[string]bool{}, map[string]*file{}
	for _, f := range tr.files {
		// what plugins share is no plugin, and what compares the scanners is no scanner
		if parts := strings.Split(f.path, "/"); len(parts) > 2 &&
			(parts[0] == "scanners" && parts[1] != "testdata" || parts[0] == "plugins" && parts[1] != "internal") {
			dir := parts[0] + "/" + parts[1]
			folders[dir] = true
			have[f.path] = f
			have[path.Dir(f.path)] = f
		}
	}
	var out []string
	for dir := range folders {
		name := path.Base(dir)
		want := []string{dir + "/main.go", dir + "/README.md"}
		if path.Dir(dir) == "scanners" {
			want = append(want, dir+"/testdata/hit", dir+"/testdata/clean", dir+"/"+name+".wasm", dir+"/"+name+".wasm.gz")
		}
		for _, w := range want {
			if have[w] == nil {
				out = append(out, dir+": has no "+strings.TrimPrefix(w, dir+"/")+
					": each folder has one (see scanners/secrets and plugins/webhook-authz)")
			}
		}
		if readme := have[dir+"/README.md"]; readme != nil {
			out = append(out, readmeSections(readme)...)
		}
	}
	return out
}

func readmeSections(f *file) []string {
	var got []string
	f.lines(func(_ int, line string) {
		if h, ok := strings.CutPrefix(line, "## "); ok {
			got = append(got, strings.TrimSpace(h))
		}
	})
	have := strings.Join(got, ", ")
	want := strings.Join(scannerSections, ", ")
	for _, say := range []string{"Findings", "Decisions", "Records"} {
		if have == strings.Replace(want, "Findings", say, 1) {
			return nil
		}
	}
	return []string{fmt.Sprintf("%s: the sections are %s; make them %s (Decisions instead of Findings for an "+
		"authorizer, Records for a subscriber)", f.path, have, want)}
}

// required are the documents that a newcomer is sent to, with the most lines each may have (0: any number).
var required = []struct {
	path  string
	lines int
}{{"README.md", 200}, {"core/ARCHITECTURE.md", 120}, {"core/RATIONALE.md", 0}}

func documents(tr *tree) []string {
	have := map[string]*file{}
	readmes := map[string]bool{}
	examples := map[string]bool{}
	var out []string
	for _, f := range tr.files {
		have[f.path] = f
		if parts := strings.Split(f.path, "/"); parts[0] == "examples" && len(parts) > 2 {
			examples[parts[1]] = true
			readmes[parts[1]] = readmes[parts[1]] || parts[2] == "README.md"
		}
	}
	for _, doc := range required {
		f := have[doc.path]
		if f == nil {
			out = append(out, doc.path+": missing: it is where newcomers start")
		} else if n := bytes.Count(f.src, []byte("\n")); doc.lines > 0 && n > doc.lines {
			out = append(out, fmt.Sprintf("%s: %d lines, at most %d: a page that is read beats one that is complete", doc.path,
				n, doc.lines))
		}
	}
	for name := range examples {
		if !readmes[name] {
			out = append(out, "examples/"+name+": has no README.md: say what it shows and how to run it")
		}
		if have["examples/"+name+"/main_test.go"] == nil {
			out = append(out, "examples/"+name+": has no main_test.go: an example without a test rots")
		}
	}
	return append(out, brokenLinks(tr, have)...)
}

var link = regexp.MustCompile(`\]\(([^)#\s]+)(#[^)]*)?\)`)

// brokenLinks finds links of documents to files that are not there.
func brokenLinks(tr *tree, have map[string]*file) []string {
	folders := map[string]bool{".": true}
	for p := range have {
		for d := path.Dir(p); d != "."; d = path.Dir(d) {
			folders[d] = true
		}
	}
	var out []string
	for _, f := range tr.files {
		if !strings.HasSuffix(f.path, ".md") || strings.Contains("/"+f.path, "/testdata/") {
			continue
		}
		for _, m := range link.FindAllSubmatch(f.src, -1) {
			to := string(m[1])
			if strings.Contains(to, "://") || strings.HasPrefix(to, "mailto:") {
				continue
			}
			if p := path.Join(f.dir(), to); have[p] == nil && !folders[p] {
				out = append(out, fmt.Sprintf("%s: links to %s, which is not there: mend the link", f.path, to))
			}
		}
	}
	return out
}
