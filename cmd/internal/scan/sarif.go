package scan

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"net/url"
	"path/filepath"
	"slices"
	"strings"

	"github.com/yett-dev/yett/cmd/internal/cli"
	"github.com/yett-dev/yett/sdk"
)

// SARIF 2.1.0, as far as we write it. Members that readers want in any case are not left out when they are empty.
type (
	sarifLog struct {
		Schema  string     `json:"$schema"`
		Version string     `json:"version"`
		Runs    []sarifRun `json:"runs"`
	}
	sarifRun struct {
		Tool        sarifTool         `json:"tool"`
		Invocations []sarifInvocation `json:"invocations"`
		ColumnKind  string            `json:"columnKind"`
		Results     []sarifResult     `json:"results"`
	}
	sarifTool struct {
		Driver sarifDriver `json:"driver"`
	}
	sarifDriver struct {
		Name           string      `json:"name"`
		Version        string      `json:"version"`
		InformationURI string      `json:"informationUri"`
		Rules          []sarifRule `json:"rules"`
	}
	sarifRule struct {
		ID         string        `json:"id"`
		Short      sarifText     `json:"shortDescription"`
		Default    sarifDefault  `json:"defaultConfiguration"`
		Properties sarifRuleBags `json:"properties"`
	}
	sarifDefault struct {
		Level string `json:"level"`
	}
	sarifRuleBags struct {
		Tags     []string `json:"tags"`
		Severity string   `json:"security-severity"`
	}
	sarifText struct {
		Text string `json:"text"`
	}
	sarifInvocation struct {
		Successful    bool                `json:"executionSuccessful"`
		ExitCode      int                 `json:"exitCode"`
		Notifications []sarifNotification `json:"toolExecutionNotifications"`
	}
	sarifNotification struct {
		Level     string          `json:"level"`
		Message   sarifText       `json:"message"`
		Locations []sarifLocation `json:"locations,omitempty"`
	}
	sarifResult struct {
		RuleID       string             `json:"ruleId"`
		RuleIndex    int                `json:"ruleIndex"`
		Level        string             `json:"level"`
		Message      sarifText          `json:"message"`
		Locations    []sarifLocation    `json:"locations"`
		Fingerprints map[string]string  `json:"partialFingerprints"`
		Baseline     string             `json:"baselineState,omitempty"`
		Suppressions []sarifSuppression `json:"suppressions,omitempty"`
		Properties   sarifResultBag     `json:"properties"`
	}
	sarifResultBag struct {
		Scanner    string  `json:"scanner"`
		Severity   string  `json:"severity"`
		Confidence float32 `json:"confidence"`
	}
	sarifSuppression struct {
		Kind          string `json:"kind"`
		Justification string `json:"justification,omitempty"`
	}
	sarifLocation struct {
		Physical sarifPhysical `json:"physicalLocation"`
	}
	sarifPhysical struct {
		Artifact sarifArtifact `json:"artifactLocation"`
		Region   *sarifRegion  `json:"region,omitempty"`
	}
	sarifArtifact struct {
		URI string `json:"uri"`
	}
	sarifRegion struct {
		StartLine   int `json:"startLine"`
		StartColumn int `json:"startColumn"`
		EndLine     int `json:"endLine"`
		EndColumn   int `json:"endColumn"`
		ByteOffset  int `json:"byteOffset"`
		ByteLength  int `json:"byteLength"`
	}
)

// fingerprintName names how a fingerprint is made: another way is to have another name.
const fingerprintName = "yettKindFileOccurrence/v1"

// scores are what readers sort by: the middle of the ranges that CVSS has for the words.
var scores = map[sdk.Severity]string{sdk.Info: "0.0", sdk.Low: "2.0", sdk.Medium: "5.5", sdk.High: "8.0",
	sdk.Critical: "9.5"}

// uri is a file as a URI, relative to where the command ran if that is how it is named.
func uri(name string) string {
	if name == "-" {
		return "stdin"
	}
	u := url.URL{Path: name}
	if filepath.IsAbs(name) {
		u.Scheme = "file"
		return u.String()
	}
	text := u.EscapedPath()
	if first, _, _ := strings.Cut(text, "/"); strings.Contains(first, ":") {
		return "./" + text // else it would read as a scheme
	}
	return text
}

func locationOf(f *Finding) []sarifLocation {
	region := &sarifRegion{f.Line, f.Column, f.EndLine, f.EndColumn, f.Start, f.End - f.Start}
	return []sarifLocation{{sarifPhysical{sarifArtifact{uri(f.File)}, region}}}
}

// sarif writes the report as SARIF. It holds no value, not even with --show: it is made to be uploaded.
func (r *Report) sarif(w io.Writer, o *options) error {
	run := sarifRun{Tool: sarifTool{sarifDriver{Name: "yett scan", Version: r.Version,
		InformationURI: "https://github.com/yett-dev/yett", Rules: []sarifRule{}}},
		ColumnKind: "unicodeCodePoints", Results: []sarifResult{}}
	invocation := sarifInvocation{Successful: r.Complete, ExitCode: r.code(), Notifications: []sarifNotification{}}
	for _, u := range r.Unscanned {
		invocation.Notifications = append(invocation.Notifications, sarifNotification{"error",
			sarifText{"not scanned: " + u.Error}, []sarifLocation{{sarifPhysical{Artifact: sarifArtifact{uri(u.File)}}}}})
	}
	if r.Interrupted {
		invocation.Notifications = append(invocation.Notifications, sarifNotification{Level: "error",
			Message: sarifText{"interrupted: the results are partial"}})
	}
	for _, m := range skipMeans {
		if n := r.Skipped[m.reason]; n > 0 {
			invocation.Notifications = append(invocation.Notifications, sarifNotification{Level: "note",
				Message: sarifText{fmt.Sprintf("skipped %d: %s", n, m.means)}})
		}
	}
	run.Invocations = []sarifInvocation{invocation}
	index := r.rules(&run.Tool.Driver)
	occurrences := map[[2]string]int{}
	add := func(list []Finding, state string, why func(*Finding) []sarifSuppression) {
		for i := range list {
			f := &list[i]
			key := [2]string{f.File, f.Kind}
			occurrences[key]++
			sum := sha256.Sum256(fmt.Appendf(nil, "%q %q %d", f.Kind, f.File, occurrences[key]))
			run.Results = append(run.Results, sarifResult{RuleID: f.Kind, RuleIndex: index[f.Kind], Level: level(f.Severity),
				Message: sarifText{fmt.Sprintf("%s found by %s: %s", f.Kind, f.Scanner, f.Masked)}, Locations: locationOf(f),
				Fingerprints: map[string]string{fingerprintName: hex.EncodeToString(sum[:16])}, Baseline: state,
				Suppressions: why(f), Properties: sarifResultBag{f.Scanner, f.Severity, f.Confidence}})
		}
	}
	fresh, old := "", ""
	if o.baseline != "" {
		fresh, old = "new", "unchanged"
	}
	add(r.Findings, fresh, func(*Finding) []sarifSuppression { return nil })
	add(r.Known, old, func(*Finding) []sarifSuppression {
		return []sarifSuppression{{"external", "it is in the baseline"}}
	})
	add(r.Allowed, "", func(f *Finding) []sarifSuppression { return []sarifSuppression{{"inSource", f.Reason}} })
	return printJSON(w, sarifLog{"https://json.schemastore.org/sarif-2.1.0.json", "2.1.0", []sarifRun{run}})
}

// printJSON writes what can be shown on a terminal too.
func printJSON(w io.Writer, v any) error {
	text, err := json.MarshalIndent(v, "", " ")
	if err != nil {
		return err
	}
	_, err = w.Write(append(cli.VisibleJSON(text), '\n'))
	return err
}

// rules adds a rule for each kind that was found, and gives their places.
func (r *Report) rules(driver *sarifDriver) map[string]int {
	kinds := map[string]sdk.Severity{}
	for _, list := range [][]Finding{r.Findings, r.Known, r.Allowed} {
		for i := range list {
			kinds[list[i].Kind] = max(kinds[list[i].Kind], list[i].severity)
		}
	}
	index := map[string]int{}
	for k, s := range kinds {
		driver.Rules = append(driver.Rules, sarifRule{ID: k, Short: sarifText{title(k)},
			Default: sarifDefault{level(s.String())}, Properties: sarifRuleBags{[]string{"security"}, scores[s]}})
	}
	slices.SortFunc(driver.Rules, func(a, b sarifRule) int { return strings.Compare(a.ID, b.ID) })
	for i := range driver.Rules {
		index[driver.Rules[i].ID] = i
	}
	return index
}

// title is a kind in words.
func title(kind string) string {
	words := strings.ToLower(strings.ReplaceAll(kind, "_", " "))
	return strings.ToUpper(words[:1]) + words[1:]
}

// json writes the report as one object.
func (r *Report) json(w io.Writer) error {
	for _, list := range []*[]Finding{&r.Findings, &r.Known, &r.Allowed} {
		if *list == nil {
			*list = []Finding{}
		}
	}
	if r.Unreasoned == nil {
		r.Unreasoned = []Unreasoned{}
	}
	if r.Unscanned == nil {
		r.Unscanned = []Unscanned{}
	}
	return printJSON(w, r)
}
