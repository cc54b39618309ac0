package strict

import (
	"regexp"
	"slices"
	"strings"
)

// kubernetesVariable matches what Kubernetes puts into every container for a service that is called yett or yett-….
var kubernetesVariable = regexp.MustCompile(`_SERVICE_(HOST|PORT)(_[A-Z0-9_]+)?$|_PORT(_[0-9]+_(TCP|UDP|SCTP)(_(PROTO|PORT|ADDR))?)?$`)

// CheckStray refuses variables that were meant to be settings but lack an underscore or are in small letters: without a
// word they would do nothing. A variable is one when it begins like a section; others may be anybody's. known are
// variables of such names that have another use.
func (l *Loader) CheckStray(known []string) {
	prefix := l.src.EnvPrefix + "__"
	flat := map[string]string{} // SERVER_LISTEN to server.listen
	var names []string
	for _, key := range allKeys(l.root, "") {
		name := strings.ToUpper(strings.ReplaceAll(key, ".", "_"))
		flat[name] = key
		names = append(names, name)
	}
	for _, v := range l.src.Env {
		name, _, _ := strings.Cut(v, "=")
		rest, ours := strings.CutPrefix(strings.ToUpper(name), l.src.EnvPrefix+"_")
		if !ours || strings.HasPrefix(name, prefix) || slices.Contains(known, name) || l.envRead[name] ||
			kubernetesVariable.MatchString(name) {
			continue
		}
		rest = strings.TrimPrefix(strings.ReplaceAll(rest, "__", "_"), "_")
		section, _, _ := strings.Cut(rest, "_")
		if _, is := fieldOf(l.root, strings.ToLower(section)); !is {
			continue
		}
		key := flat[rest]
		if key == "" {
			key = flat[nearest(rest, names)]
		}
		if key == "" {
			l.Report.Add(Pos{File: "env " + name}, "",
				"is not read: a setting's variable is in capitals and has two underscores between its parts, as in %s%s__KEY",
				prefix, section)
			continue
		}
		l.Report.Add(Pos{File: "env " + name}, "",
			"is not read: a setting's variable is in capitals and has two underscores between its parts; did you mean %s%s?",
			prefix, strings.ToUpper(strings.ReplaceAll(key, ".", "__")))
	}
}
