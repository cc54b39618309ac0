package main

import (
	"encoding/json"
	"errors"
	"net/url"
	"runtime/debug"
	"strings"
	"time"
)

// The document is a CycloneDX 1.6 bill of materials (ECMA-424), as far as a Go binary knows what it is made of.
type (
	bom struct {
		Format     string      `json:"bomFormat"`
		Spec       string      `json:"specVersion"`
		Version    int         `json:"version"`
		Metadata   metadata    `json:"metadata"`
		Components []component `json:"components"`
	}
	metadata struct {
		Timestamp string    `json:"timestamp"`
		Component component `json:"component"`
	}
	component struct {
		Type       string     `json:"type"`
		Ref        string     `json:"bom-ref"`
		Name       string     `json:"name"`
		Version    string     `json:"version,omitempty"`
		PURL       string     `json:"purl,omitempty"`
		Hashes     []hash     `json:"hashes,omitempty"`
		Properties []property `json:"properties,omitempty"`
	}
	hash struct {
		Algorithm string `json:"alg"`
		Content   string `json:"content"`
	}
	property struct {
		Name  string `json:"name"`
		Value string `json:"value"`
	}
)

// modules lists what a binary is made of, as the binary itself says. digest is the binary's.
func modules(info *debug.BuildInfo, from commit, digest string) ([]byte, error) {
	if info.Main.Path == "" {
		return nil, errors.New("the binary names no main module")
	}
	out := bom{Format: "CycloneDX", Spec: "1.6", Version: 1, Metadata: metadata{Timestamp: from.at.Format(time.RFC3339),
		Component: component{Type: "application", Ref: "yett", Name: "yett", Version: from.version,
			Hashes: []hash{{"SHA-256", strings.TrimPrefix(digest, "sha256:")}}}}}
	out.Components = append(out.Components, component{Type: "library", Ref: purl("std", info.GoVersion), Name: "std",
		Version: info.GoVersion, PURL: purl("std", info.GoVersion)})
	for _, m := range info.Deps {
		if m.Replace != nil {
			m = m.Replace
		}
		c := component{Type: "library", Ref: purl(m.Path, m.Version), Name: m.Path, Version: m.Version,
			PURL: purl(m.Path, m.Version)}
		if m.Sum != "" { // a hash of hashes (golang.org/x/mod/sumdb/dirhash), which CycloneDX has no name for
			c.Properties = []property{{"go:sum", m.Sum}}
		}
		out.Components = append(out.Components, c)
	}
	text, err := json.MarshalIndent(out, "", "  ")
	return append(text, '\n'), err
}

// purl names a module as https://github.com/package-url/purl-spec says.
func purl(path, version string) string {
	parts := strings.Split(path, "/")
	for i, p := range parts {
		parts[i] = url.PathEscape(p)
	}
	return "pkg:golang/" + strings.Join(parts, "/") + "@" + url.QueryEscape(version)
}
