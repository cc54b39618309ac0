package config

import (
	"regexp"
	"strings"
)

// knownVariables are what the program's commands and clients read from the environment beside settings.
var knownVariables = []string{"YETT_API_KEY", "YETT_URL", "YETT_SOCKET", "YETT_CACERT", "YETT_CERT", "YETT_CERT_KEY",
	"YETT_DATA", "YETT_PLUGIN"}

// kubernetesVariable matches what Kubernetes puts into every container for a service that is called yett or yett-….
var kubernetesVariable = regexp.MustCompile(`_SERVICE_(HOST|PORT)(_[A-Z0-9_]+)?$|_PORT(_[0-9]+_(TCP|UDP|SCTP)(_(PROTO|PORT|ADDR))?)?$`)

// checkStray refuses variables that were meant to be settings but lack an underscore: without a word they would do
// nothing. A variable is one when it begins like a section; others may be anybody's.
func (l *loader) checkStray() {
	flat := map[string]string{} // SERVER_LISTEN to server.listen
	var names []string
	for _, key := range allKeys(configType, "") {
		name := strings.ToUpper(strings.ReplaceAll(key, ".", "_"))
		flat[name] = key
		names = append(names, name)
	}
	for _, v := range l.src.Env {
		name, _, _ := strings.Cut(v, "=")
		rest, ours := strings.CutPrefix(strings.ToUpper(name), "YETT_")
		if !ours || strings.HasPrefix(name, envPrefix) || contains(knownVariables, name) || l.envRead[name] ||
			kubernetesVariable.MatchString(name) {
			continue
		}
		rest = strings.ReplaceAll(rest, "__", "_")
		section, _, _ := strings.Cut(rest, "_")
		if _, is := fieldOf(configType, strings.ToLower(section)); !is {
			continue
		}
		key := flat[rest]
		if key == "" {
			key = flat[nearest(rest, names)]
		}
		if key == "" {
			l.report.add(Pos{File: "env " + name}, "",
				"is not read: a setting's variable has two underscores between its parts, as in %s%s__KEY", envPrefix, section)
			continue
		}
		l.report.add(Pos{File: "env " + name}, "",
			"is not read: a setting's variable has two underscores between its parts; did you mean %s%s?",
			envPrefix, strings.ToUpper(strings.ReplaceAll(key, ".", "__")))
	}
}
