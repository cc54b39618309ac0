package conform

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	"github.com/yett-dev/yett/core/prochost"
	pluginv1 "github.com/yett-dev/yett/sdk/proto/v1"
)

func infoChecks() []check {
	return []check{
		{name: "info", from: atSession, run: checkInfo,
			expects: "Info says all that the gateway needs within the limits of plugin.proto, and the same each time"},
		{name: "versions", from: atInfo, run: checkVersions,
			expects: "Info answers whatever versions the host speaks, and lists 1 among its own"},
		{name: "kinds", from: atInfo, run: checkKinds,
			expects: "each kind that Info names is served, and no other"},
		{name: "schema", from: atInfo, run: checkSchema,
			expects: "config_schema is a JSON Schema (2020-12) of an object without outside references, and " +
				"example_config fits it"},
	}
}

// The limits on what Info may say.
const (
	maxSchema      = 256 << 10 // bytes of config_schema and of example_config
	maxDescription = 1024      // bytes
	maxSecrets     = 64
	maxKinds       = 256 // kinds of findings
)

var (
	pluginName  = regexp.MustCompile(`^[a-z0-9._-]{1,64}$`)
	findingKind = regexp.MustCompile(`^[A-Z0-9_]{1,64}$`)
	keyField    = regexp.MustCompile(`^(key_id|key_name|agent_id|session_id|tool_id|operation|args|context|(args|context)\.[^\x00-\x1f]{1,128})$`)
	secretName  = regexp.MustCompile(`^[A-Za-z0-9._-]{1,64}$`)
)

func checkInfo(ctx context.Context, r *run) error {
	s, err := r.fresh(ctx)
	if err != nil {
		return err
	}
	defer r.done(s)
	for i := range 3 {
		info, err := r.plugin(s).Info(ctx, r.infoRequest(1))
		if err != nil {
			return r.gone(s, fmt.Errorf("Info: %s", said(err)))
		}
		if !proto.Equal(info, r.info) {
			return failed("Info depends on nothing but the build of the plugin: the gateway takes a process that says "+
				"something else for another program",
				"Info number %d, in a new process, differs from the first one's", i+1)
		}
	}
	r.rep.Name, r.rep.Version = oneLine(r.info.Name), oneLine(r.info.Version)
	for _, k := range r.info.Kinds {
		r.rep.Kinds = append(r.rep.Kinds, kindName(k))
	}
	r.came = atInfo
	return wrongInfo(r.info)
}

// wrongInfo says what is missing or too much in an answer of Info.
func wrongInfo(in *pluginv1.InfoResponse) error {
	const advice = "fill in plugin.Info; plugin.proto says what each field may hold"
	bad := func(format string, args ...any) error { return failed(advice, format, args...) }
	switch {
	case !pluginName.MatchString(in.Name):
		return bad("name %q: want 1 to 64 of a-z 0-9 . _ -", short(in.Name))
	case in.Version == "" || len(in.Version) > 64 || !printable(in.Version):
		return bad("version %q: want 1 to 64 printable characters", short(in.Version))
	case len(in.Kinds) == 0:
		return bad("kinds: want at least one")
	case len(in.Description) > maxDescription || !printable(in.Description):
		return bad("description: want one line of at most %d bytes", maxDescription)
	case len(in.ConfigSchema) > maxSchema || len(in.ExampleConfig) > maxSchema:
		return bad("config_schema or example_config has more than %d bytes", maxSchema)
	case len(in.Secrets) > maxSecrets || len(in.Findings) > maxKinds:
		return bad("more than %d secrets or %d kinds of findings", maxSecrets, maxKinds)
	}
	for i, k := range in.Kinds {
		if k < pluginv1.Kind_KIND_AUTHORIZER || k > pluginv1.Kind_KIND_SUBSCRIBER || slices.Contains(in.Kinds[:i], k) {
			return bad("kinds: %v is unknown or twice there", k)
		}
	}
	seen := map[string]bool{}
	for _, sec := range in.Secrets {
		if !secretName.MatchString(sec.Name) || seen[sec.Name] || len(sec.Description) > maxDescription {
			return bad("secrets: %q: want different names of 1 to 64 of A-Z a-z 0-9 . _ -", short(sec.Name))
		}
		seen[sec.Name] = true
	}
	for _, f := range in.Findings {
		if !findingKind.MatchString(f.Kind) || seen["kind "+f.Kind] || len(f.Description) > maxDescription {
			return bad("findings: %q: want different kinds, upper case with underscores, at most 64 bytes", short(f.Kind))
		}
		seen["kind "+f.Kind] = true
	}
	if slices.Contains(in.Kinds, pluginv1.Kind_KIND_SCANNER) && len(in.Findings) == 0 {
		return bad("findings: a scanner lists the kinds that it may report")
	}
	for _, f := range in.GetCapabilities().GetCacheKeyFields() {
		if !keyField.MatchString(f) {
			return bad("cache_key_fields: %q is no field of a call", short(f))
		}
	}
	if err := prochost.WrongInfo(forHost(in)); err != nil {
		return bad("%v", err)
	}
	return nil
}

// forHost is Info without what has checks of its own, versions and schema: all that is left must please the gateway's
// host.
func forHost(in *pluginv1.InfoResponse) *pluginv1.InfoResponse {
	rest, _ := proto.Clone(in).(*pluginv1.InfoResponse)
	if !slices.Contains(rest.ApiVersions, pluginv1.ProtocolVersion) {
		rest.ApiVersions = append(rest.ApiVersions, pluginv1.ProtocolVersion)
	}
	if !isObject([]byte(rest.ConfigSchema)) {
		rest.ConfigSchema = ""
	}
	if !isObject([]byte(rest.ExampleConfig)) {
		rest.ExampleConfig = ""
	}
	return rest
}

func printable(s string) bool {
	return utf8.ValidString(s) && !strings.ContainsFunc(s, func(c rune) bool { return !unicode.IsPrint(c) })
}

func short(s string) string {
	if len(s) > 80 {
		return strings.ToValidUTF8(s[:80], "") + "…"
	}
	return s
}

func checkVersions(ctx context.Context, r *run) error {
	s, err := r.fresh(ctx)
	if err != nil {
		return err
	}
	defer r.done(s)
	for _, speaks := range [][]uint32{{1}, {97}, {97, 1, 4096}, nil} {
		info, err := r.plugin(s).Info(ctx, r.infoRequest(speaks...))
		if err != nil {
			return r.gone(s, failed("Info never refuses: the host compares the versions itself", "Info with api_versions %v: %s",
				speaks, said(err)))
		}
		if !slices.Contains(info.ApiVersions, 1) {
			return failed("list in api_versions every version that the plugin speaks, 1 among them",
				"Info with api_versions %v lists %v, and 1 is not among them", speaks, info.ApiVersions)
		}
	}
	return nil
}

// checkKinds asks each service something harmless before Configure: an unknown service is UNIMPLEMENTED, a known one is
// not.
func checkKinds(ctx context.Context, r *run) error {
	s, err := r.fresh(ctx)
	if err != nil {
		return err
	}
	defer r.done(s)
	served := map[pluginv1.Kind]error{}
	_, served[pluginv1.Kind_KIND_AUTHORIZER] = r.authorizer(s).Check(ctx, r.unknownCall(1))
	_, served[pluginv1.Kind_KIND_SCANNER] = r.scanner(s).Scan(ctx, r.text(1, ""))
	if feed, err := r.subscriber(s).Consume(ctx); err != nil {
		served[pluginv1.Kind_KIND_SUBSCRIBER] = err
	} else {
		_ = feed.CloseSend() // what Recv says counts
		_, served[pluginv1.Kind_KIND_SUBSCRIBER] = feed.Recv()
	}
	for _, k := range []pluginv1.Kind{pluginv1.Kind_KIND_AUTHORIZER, pluginv1.Kind_KIND_SCANNER,
		pluginv1.Kind_KIND_SUBSCRIBER} {
		missing := status.Code(served[k]) == codes.Unimplemented
		switch {
		case r.is(k) && missing:
			return failed("serve what Info names, or do not name it",
				"Info names the kind %s, but its service is not there (UNIMPLEMENTED)", kindName(k))
		case !r.is(k) && !missing:
			return failed("name every kind that is served, or do not serve it",
				"the service of the kind %s is there, but Info does not name it", kindName(k))
		}
	}
	return r.gone(s, ctx.Err())
}

func checkSchema(_ context.Context, r *run) error {
	r.config = []byte("{}")
	if text := r.info.ExampleConfig; text != "" {
		r.config = []byte(text)
	}
	if r.opts.Config != nil {
		r.config = r.opts.Config
	}
	if !isObject([]byte(orEmpty(r.info.ExampleConfig))) {
		return failed("example_config is settings with which the plugin runs as it is, a JSON object",
			"example_config is no JSON object")
	}
	schema := r.info.ConfigSchema
	if schema == "" {
		if orEmpty(r.info.ExampleConfig) != "{}" {
			return failed("say in config_schema what the settings are", "there is an example_config but no config_schema")
		}
		return nil
	}
	var doc map[string]any
	if err := json.Unmarshal([]byte(schema), &doc); err != nil || doc == nil {
		return failed("config_schema is a JSON Schema of version 2020-12, an object", "config_schema is no JSON object")
	}
	if r.opts.CheckConfig == nil {
		return skipped("no checker of JSON Schemas was handed in")
	}
	if err := r.opts.CheckConfig(schema, []byte(orEmpty(r.info.ExampleConfig))); err != nil {
		if isSchemaFault(err) {
			return failed("mend config_schema: a JSON Schema of version 2020-12 that refers to nothing outside itself",
				"%v", err)
		}
		return failed("make the example one that the schema takes", "example_config does not fit config_schema: %v", err)
	}
	if r.opts.Config != nil {
		if err := r.opts.CheckConfig(schema, r.opts.Config); err != nil {
			return failed("give other settings with --config", "the settings given do not fit config_schema: %v", err)
		}
	}
	r.bad = r.misfit(schema)
	return nil
}

// isSchemaFault says whether an error of Options.CheckConfig is about the schema itself, not about the settings.
func isSchemaFault(err error) bool {
	var fault interface{ SchemaPlace() string }
	return errors.As(err, &fault)
}

func orEmpty(config string) string {
	if config == "" {
		return "{}"
	}
	return config
}

// misfit gives settings that differ from the good ones in an unknown member, if the schema refuses that.
func (r *run) misfit(schema string) []byte {
	var object map[string]json.RawMessage
	if json.Unmarshal(r.config, &object) != nil {
		return nil
	}
	object["no_such_setting"] = json.RawMessage("true")
	text, err := json.Marshal(object)
	if err != nil || r.opts.CheckConfig(schema, text) == nil {
		return nil
	}
	return text
}
