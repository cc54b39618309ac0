package lint

import (
	"fmt"
	"path"
	"slices"
	"strings"
)

// row says what a package may import besides the standard library. A new package adds a row with one sentence why.
type row struct {
	pkg    string   // folder; a last element * stands for each folder at that place
	ours   []string // of ours; a trailing /... stands for everything below
	others []string // modules of others
	tests  []string // modules of others that its tests may import too
	why    string
}

// allowed is the allow-list. Imports go one way, from cmd down to sdk, and a library has one package that may know it.
var allowed = []row{
	{pkg: "sdk", why: "the nouns are the bottom: everything stands on them"},
	{pkg: "sdk/abi", why: "constants that a guest and the host read"},
	{pkg: "sdk/exact", why: "strict JSON and exact numbers are needed below sdk's other packages"},
	{pkg: "sdk/wire", ours: []string{"sdk", "sdk/exact"}, why: "codecs that server and clients share"},
	{pkg: "sdk/client", ours: []string{"sdk", "sdk/exact", "sdk/wire"}, why: "what an agent's author imports stays small: no gRPC, no fasthttp, no server"},
	{pkg: "sdk/scanner", ours: []string{"sdk", "sdk/abi", "sdk/exact"}, why: "what a scanner's author imports stays small"},

	{pkg: "sdk/proto/v1", others: []string{"google.golang.org/grpc", "google.golang.org/protobuf"}, why: "what protoc makes of the protocol's one file"},
	{pkg: "sdk/plugin", ours: []string{"sdk", "sdk/exact", "sdk/proto/v1"}, others: []string{"github.com/hashicorp/go-plugin", "github.com/hashicorp/go-hclog", "google.golang.org/grpc", "google.golang.org/protobuf"}, tests: []string{"golang.org/x/mod"},
		why: "a plugin's author imports this and meets neither gRPC nor go-plugin in its names"},
	{pkg: "sdk/plugin/plugintest", ours: []string{"sdk", "sdk/plugin", "sdk/proto/v1"}, others: []string{"google.golang.org/grpc"}, why: "the same services in the process of the author's test"},

	{pkg: "config/strict", ours: []string{"core/quote"}, others: []string{"github.com/knadh/koanf/v2", "github.com/go-viper/mapstructure/v2", "go.yaml.in/yaml/v3"},
		why: "the engine knows the configuration's libraries and none of its sections: it reads into any struct with tags"},
	{pkg: "config", ours: []string{"config/strict", "core/cosign", "core/pattern", "core/pin", "core/quote", "sdk/exact"}, others: []string{"github.com/santhosh-tekuri/jsonschema/v6"},
		why: "the sections and what they mean; only it knows schemas. Others take their section as it is"},

	{pkg: "core", ours: []string{"core/...", "config", "sdk/...", "sdk", "scanners"}, tests: []string{"github.com/prometheus/client_golang"}, why: "the wiring is the top: nothing but cmd imports it"},
	{pkg: "core/loaded", ours: []string{"config", "core/chain", "core/confine", "core/ops", "core/pin", "core/places", "core/prochost", "core/quote", "core/regular", "core/rules", "core/store", "core/supervise", "core/trust", "core/wasm/host", "scanners", "sdk", "sdk/abi", "sdk/exact"},
		why: "rules, modules and plugin processes of one configuration are built in one place; it knows no listener"},
	{pkg: "core/pin", ours: []string{"core/regular"}, why: "bytes are named in one way"},
	{pkg: "core/pattern", why: "a regular expression is measured in one way before anything compiles it"},
	{pkg: "core/quote", why: "texts of others are made fit for messages in one way"},
	{pkg: "core/chain", ours: []string{"sdk", "sdk/abi", "sdk/exact", "core/prefilter", "core/quote"}, why: "verdicts are pure: no I/O of their own; the chain reads a text once for all its scanners"},
	{pkg: "core/prefilter", ours: []string{"sdk/abi"}, why: "the one pass over a text is pure"},
	{pkg: "core/wasm/check", ours: []string{"core/quote", "sdk/abi"}, tests: []string{"github.com/tetratelabs/wazero"},
		why: "admission is decided on bytes, before any engine sees them; its tests hold it against the engine"},
	{pkg: "core/testkit/wasmgen", ours: []string{"sdk/abi"}, why: "modules for tests, made byte by byte"},
	{pkg: "core/testkit", others: []string{"golang.org/x/sys"}, why: "what tests of several packages share; only tests import it"},
	{pkg: "core/testkit/doortest", ours: []string{"config", "core/chain", "core/doors/ask", "core/ops", "core/store", "core/testkit/limits", "sdk"},
		why: "doors are tested on the real operations and a real store; only tests import it"},
	{pkg: "core/testkit/limits", ours: []string{"config"}, why: "a gateway's limits for tests; only tests import it"},
	{pkg: "core/regular", why: "whoever reads an operator's file must not wait for a pipe in its place"},
	{pkg: "core/trust", ours: []string{"core/pin", "core/regular"}, others: []string{"aead.dev/minisign"}, why: "which bytes may run, and who signed them, is one question; only it knows signatures"},
	{pkg: "core/confine", others: []string{"golang.org/x/sys", "golang.org/x/net"}, why: "what the kernel takes from a child is one question; only it knows filters and domains"},
	{pkg: "core/peer", ours: []string{"core/confine"}, others: []string{"golang.org/x/sys"}, why: "who is at the other end of a socket is asked in one way by whoever listens or connects"},
	{pkg: "core/testkit/intruder", others: []string{"golang.org/x/sys"}, why: "what tests of confinement try, from inside and outside; only tests import it"},
	{pkg: "core/places", why: "how calls into somebody else's code are shared out among keys is one question for modules and processes"},
	{pkg: "core/supervise", ours: []string{"core/pin", "core/quote", "core/confine"}, others: []string{"golang.org/x/sys"}, why: "child processes of every kind have one supervisor"},
	{pkg: "cmd/internal/author/project", ours: []string{"core/quote"}, why: "a project is written in one way, whatever it is of"},
	{pkg: "cmd/internal/author/kit", ours: []string{"cmd/internal/author/project", "core/pin", "sdk", "sdk/...", "core/chain", "core/prefilter", "core/wasm/host", "core/wasm/check", "core/trust", "core/regular"}, others: []string{"go.yaml.in/yaml/v3"},
		why: "what a scanner's author is told comes from the production host"},
	{pkg: "core/shell", others: []string{"mvdan.cc/sh/v3"}, why: "what a command line does is read in one way; only it knows the shell's grammar"},
	{pkg: "core/rules", ours: []string{"core/pattern", "core/quote", "core/shell", "sdk", "sdk/exact", "core/chain"}, others: []string{"cel.dev/cel-go"}, why: "rules are one kind of step; only they know CEL"},
	{pkg: "core/wasm/host", ours: []string{"core/pin", "core/quote", "sdk", "sdk/abi", "sdk/exact", "core/chain", "core/prefilter", "core/wasm/check", "core/supervise", "core/confine", "core/places"}, others: []string{"github.com/tetratelabs/wazero", "golang.org/x/sys"},
		why: "modules are one kind of step; only the host knows wazero"},
	{pkg: "core/prochost", ours: []string{"core/pin", "core/quote", "sdk", "sdk/exact", "sdk/proto/v1", "sdk/plugin", "core/chain", "core/supervise", "core/confine", "core/peer", "core/places", "core/regular"},
		others: []string{"github.com/hashicorp/go-plugin", "github.com/hashicorp/go-hclog", "google.golang.org/grpc",
			"google.golang.org/protobuf", "github.com/failsafe-go/failsafe-go", "golang.org/x/sys"},
		why: "plugin processes are one kind of step; only the host knows go-plugin"},
	{pkg: "core/testkit/fakeplugin", ours: []string{"sdk/proto/v1", "core/testkit/intruder"}, others: []string{"github.com/hashicorp/go-plugin", "github.com/hashicorp/go-hclog", "google.golang.org/grpc", "google.golang.org/protobuf", "golang.org/x/sys"},
		why: "what misbehaves must not be kept straight by our own kit"},
	{pkg: "core/feed", ours: []string{"core/quote", "sdk", "sdk/exact", "sdk/wire", "sdk/proto/v1", "core/log", "core/log/follow"}, others: []string{"golang.org/x/mod", "google.golang.org/grpc", "google.golang.org/protobuf"},
		why: "subscribers are fed behind the log's back: the pump knows neither the database nor the processes"},
	{pkg: "cmd/internal/author/conform", ours: []string{"sdk/wire", "cmd/internal/author/project", "core/pin", "sdk", "sdk/exact", "sdk/proto/v1", "sdk/plugin", "core/prochost", "core/supervise", "core/confine", "core/log", "core/regular"}, others: []string{"google.golang.org/grpc", "google.golang.org/protobuf", "golang.org/x/mod"},
		why: "what a vendor is told comes from the production host"},
	{pkg: "core/log", ours: []string{"sdk", "sdk/exact", "sdk/wire", "core/regular"}, others: []string{"golang.org/x/mod"}, tests: []string{"github.com/transparency-dev/merkle"},
		why: "what a record is depends on no database; its tests hold proofs against somebody else's library"},
	{pkg: "core/log/follow", why: "the log is followed in one way, by streams and by subscribers; it knows neither what a record is nor who keeps it"},
	{pkg: "core/log/formats", ours: []string{"core/log", "sdk/wire"}, tests: []string{"github.com/santhosh-tekuri/jsonschema/v6"},
		why: "what a record looks like elsewhere depends on no database; its tests hold events against a published schema"},
	{pkg: "core/log/segment", ours: []string{"core/log"}, others: []string{"github.com/klauspost/compress", "golang.org/x/mod"}, why: "the files of the older part of the log depend on no database; the store gives them its file system"},
	{pkg: "core/logqueue", why: "whoever logs must not wait for the log's reader"},
	{pkg: "core/datadir", ours: []string{"core/regular"}, why: "who holds a data directory is asked before anything in it is read or written"},
	{pkg: "core/reload", ours: []string{"config", "core/admin", "core/chain", "core/loaded", "core/ops", "core/pin", "core/prochost", "core/quote", "core/regular", "core/store", "core/supervise", "core/trust", "sdk"},
		why: "how a configuration takes the place of another is one question; it knows no listener"},
	{pkg: "core/cosign", why: "what a witness signs is read in one way, by whoever reads settings and by whoever asks it"},
	{pkg: "core/testkit/witness", others: []string{"golang.org/x/mod"}, why: "a witness by its specification alone, which shares nothing with the gateway's side; only tests import it"},
	{pkg: "core/checkpoints", ours: []string{"core/cosign", "core/log", "core/regular"}, others: []string{"golang.org/x/mod"}, tests: []string{"github.com/standard-webhooks/standard-webhooks/libraries"},
		why: "what leaves the data directory of the log is written and read in one place; it knows no store; its tests ask " +
			"the standard's public verifier"},
	{pkg: "core/archive", ours: []string{"config", "core/confine", "core/log", "core/pin", "core/quote", "core/supervise"},
		why: "what takes records before they go is run in one place; it knows no store"},
	{pkg: "core/subscribers", ours: []string{"config", "core/archive", "core/chain", "core/feed", "core/loaded", "core/log", "core/ops", "core/prochost", "core/store", "core/supervise", "sdk"},
		why: "who is given the log, and what of it may go, follows the configuration in force; it knows no listener"},
	{pkg: "core/store", ours: []string{"sdk", "sdk/wire", "sdk/exact", "core/log", "core/log/segment"}, others: []string{"github.com/cockroachdb/pebble/v2", "golang.org/x/mod", "github.com/RaduBerinde/btreemap"},
		why: "state and record are one write; only the store knows Pebble, and Pebble's ordered map, of which a copy costs " +
			"nothing"},
	{pkg: "core/ops", ours: []string{"config", "sdk", "sdk/wire", "sdk/exact", "core/log", "core/log/follow", "core/chain", "core/places", "core/store"}, others: []string{"github.com/oklog/ulid/v2", "golang.org/x/time"},
		why: "operations ask the chain and hand commands (nouns of core/store) to whoever commits"},
	{pkg: "core/edge", why: "what every listener asks of strangers is asked in one way; it knows no protocol"},
	{pkg: "core/httpd", ours: []string{"config", "core/edge", "core/peer", "sdk", "sdk/wire", "sdk/exact", "core/ops", "core/store"}, others: []string{"github.com/valyala/fasthttp", "golang.org/x/time", "golang.org/x/sys"},
		why: "a transport knows operations and the nouns Key and Who; only it knows fasthttp, and the kernel knows " +
			"whether a client is still there"},
	{pkg: "core/mcpd", ours: []string{"config", "core/doors/ask", "core/doors/front", "core/edge", "core/pin", "core/store", "sdk", "sdk/wire", "sdk/exact"},
		why: "MCP is forwarded as bytes: it knows no library for it, and asks the operations as every door does"},
	{pkg: "core/mcpd/oauth", ours: []string{"config", "core/doors/front", "core/edge", "core/ops", "core/store", "sdk", "sdk/exact"}, others: []string{"github.com/go-jose/go-jose/v4"},
		why: "who may speak to the MCP listener without a key of ours is one question; only it knows signed tokens"},
	{pkg: "core/doors/ask", ours: []string{"config", "sdk", "sdk/wire", "sdk/exact", "core/ops", "core/store"},
		why: "doors ask the one table of operations in one way; it knows no protocol"},
	{pkg: "core/doors/front", ours: []string{"config", "core/doors/ask", "core/edge", "core/ops", "core/store", "sdk", "sdk/wire"},
		why: "what doors that speak HTTP ask of strangers is asked in one way; it knows no door"},
	{pkg: "core/doors/mesh", ours: []string{"config", "core/doors/ask", "core/doors/front", "core/edge", "core/ops", "core/store", "sdk", "sdk/exact", "sdk/wire"},
		others: []string{"google.golang.org/grpc", "google.golang.org/protobuf/encoding/protowire"},
		tests:  []string{"github.com/envoyproxy/go-control-plane/envoy", "google.golang.org/protobuf"},
		why: "only it knows the protocols of proxies, which it reads field by field; its tests speak them with the public " +
			"packages"},
	{pkg: "core/doors/authzen", ours: []string{"config", "core/doors/ask", "core/doors/front", "core/ops", "sdk", "sdk/exact", "sdk/wire"},
		why: "only it knows AuthZEN; of the operations it knows what no client may be told"},
	{pkg: "core/doors/guardrails", ours: []string{"config", "core/doors/ask", "core/doors/front", "sdk", "sdk/exact", "sdk/wire"}, tests: []string{"go.yaml.in/yaml/v3"},
		why: "what gateways of language models ask is asked of the operations; it knows neither the store nor a listener"},
	{pkg: "core/doors", ours: []string{"config", "core/doors/..."}, why: "which doors there are is listed once"},
	{pkg: "core/sockd", ours: []string{"config", "core/edge", "core/peer", "core/confine", "sdk", "sdk/wire", "sdk/exact", "core/ops", "core/store"}, others: []string{"golang.org/x/sys", "golang.org/x/time"},
		why: "a transport knows operations and the nouns Key and Who; the kernel's calls tell how full a socket is and " +
			"who is at its other end, and whether a gateway started it"},
	{pkg: "core/status", why: "what operators are told of a plugin is declared once; it asks nobody"},
	{pkg: "core/console/compile", why: "templates are compiled when they change, and never by the gateway"},
	{pkg: "core/console", ours: []string{"core/edge", "core/status", "sdk", "sdk/wire", "core/ops", "core/store"}, others: []string{"golang.org/x/crypto"},
		why: "pages for people run the same operations as every client; only it knows passwords"},
	{pkg: "core/admin", ours: []string{"core/edge", "core/status", "core/peer", "core/confine", "sdk", "sdk/wire", "core/ops", "core/store", "core/log"}, others: []string{"golang.org/x/sys"},
		why: "a transport for operators on the machine, and the log's export; whoever is confined is no operator"},
	{pkg: "core/trace", ours: []string{"sdk"}, others: []string{"google.golang.org/protobuf"}, tests: []string{"go.opentelemetry.io/proto/otlp", "google.golang.org/protobuf"},
		why: "spans know names and codes, not operations; its tests read them with the standard's own messages"},
	{pkg: "core/obs", ours: []string{"core/edge", "sdk"}, others: []string{"github.com/prometheus/client_golang"}, why: "metrics know codes, not operations"},

	{pkg: "scanners", why: "built-ins are bytes: nothing of a scanner's code runs in the gateway"},
	{pkg: "scanners/*", ours: []string{"sdk", "sdk/scanner"}, why: "a scanner uses what any author can use"},

	{pkg: "plugins/internal/regular", why: "no plugin waits for a pipe that stands where a file should be; the gateway's own reader is behind its door"},
	{pkg: "plugins/internal/policyfiles", ours: []string{"plugins/internal/regular", "sdk", "sdk/plugin"}, why: "policies on disk are read, watched and swapped in one way by the plugins that decide with them; it knows no policy language"},
	{pkg: "plugins/internal/policyfiles/policytest", ours: []string{"sdk", "sdk/plugin", "plugins/internal/policyfiles"}, why: "the tests of those plugins ask the same of each"},
	{pkg: "plugins/opa", ours: []string{"sdk", "sdk/exact", "sdk/plugin", "plugins/internal/policyfiles", "plugins/internal/regular"}, others: []string{"github.com/open-policy-agent/opa"}, tests: []string{"github.com/santhosh-tekuri/jsonschema/v6"}, why: "only it knows Rego"},
	{pkg: "plugins/cedar", ours: []string{"sdk", "sdk/exact", "sdk/plugin", "plugins/internal/policyfiles", "plugins/internal/regular"}, others: []string{"github.com/cedar-policy/cedar-go"}, tests: []string{"github.com/santhosh-tekuri/jsonschema/v6"}, why: "only it knows Cedar"},
	{pkg: "plugins/internal/remote", why: "a failed service is asked again, and its certificate checked, in one way by the plugins that send the log to one"},
	{pkg: "plugins/internal/remote/remotetest", ours: []string{"sdk/plugin", "sdk/plugin/plugintest"}, why: "the tests of those plugins ask the same of each"},
	{pkg: "plugins/otlp", ours: []string{"sdk", "sdk/exact", "sdk/plugin", "plugins/internal/remote"}, others: []string{"go.opentelemetry.io/proto/otlp", "google.golang.org/grpc", "google.golang.org/protobuf", "google.golang.org/genproto/googleapis/rpc"}, why: "only it knows OTLP"},
	{pkg: "plugins/kafka", ours: []string{"sdk", "sdk/exact", "sdk/plugin", "plugins/internal/remote"}, others: []string{"github.com/twmb/franz-go", "github.com/twmb/franz-go/pkg/kadm", "github.com/twmb/franz-go/pkg/kfake"}, why: "only it knows Kafka"},
	{pkg: "plugins/internal/signedhttp", ours: []string{"plugins/internal/regular", "sdk"}, tests: []string{"github.com/standard-webhooks/standard-webhooks/libraries"},
		why: "signed requests over HTTP are one thing for the plugins that send them; its tests ask the standard's public " +
			"verifier"},
	{pkg: "plugins/webhook-sink", ours: signing, tests: []string{"github.com/standard-webhooks/standard-webhooks/libraries"}, why: "its tests ask the standard's public verifier"},
	{pkg: "plugins/webhook-authz", ours: signing, tests: []string{"github.com/standard-webhooks/standard-webhooks/libraries"}, why: "its tests ask the standard's public verifier"},
	{pkg: "plugins/notify", ours: signing, tests: []string{"github.com/standard-webhooks/standard-webhooks/libraries"}, why: "its tests ask the standard's public verifier"},
	{pkg: "plugins/*", ours: []string{"sdk", "sdk/exact", "sdk/plugin"}, why: "a plugin of ours gets no door that a vendor lacks"},

	{pkg: "cmd/yett", ours: []string{"core", "core/...", "config", "sdk", "sdk/...", "scanners", "cmd/internal/cli", "cmd/internal/admin", "cmd/internal/agents/...", "cmd/internal/author", "cmd/internal/bench", "cmd/internal/scan",
		"cmd/internal/e2e"},
		others: []string{"github.com/spf13/cobra", "go.yaml.in/yaml/v3", "golang.org/x/sys"},
		why:    "the program: its tests run all of it"},
	{pkg: "cmd/internal/e2e", ours: []string{"core/testkit"}, why: "it builds the program for tests and never imports it; only tests import it"},
	{pkg: "cmd/internal/cli", ours: []string{"config", "scanners", "sdk", "sdk/wire"}, others: []string{"github.com/spf13/cobra", "go.yaml.in/yaml/v3", "golang.org/x/sys"},
		why: "every command prints, fails and finds its configuration in one way; it knows no command"},
	{pkg: "cmd/internal/release", ours: []string{"core/pin"}, why: "a release is built from outside of what it holds"},
	{pkg: "cmd/internal/admin", ours: []string{"cmd/internal/cli", "config", "core/admin", "core/log", "core/log/formats", "core/datadir", "core/regular", "core/status", "core/store", "core/supervise", "sdk", "sdk/client", "sdk/exact", "sdk/wire"},
		others: []string{"github.com/spf13/cobra"},
		why:    "operators reach a running server by its admin socket or API, and read what a stopped one left"},
	{pkg: "cmd/internal/author", ours: []string{"cmd/internal/cli", "config", "core/chain", "core/confine", "core/loaded", "cmd/internal/author/conform", "cmd/internal/author/kit", "cmd/internal/author/project", "core/prefilter", "core/regular", "core/rules", "core/testkit", "core/trust",
		"core/wasm/host", "scanners", "sdk", "sdk/abi", "sdk/exact", "sdk/plugin", "sdk/proto/v1", "sdk/wire"},
		others: []string{"github.com/spf13/cobra"}, why: "authors try their work on the hosts that will run it"},
	{pkg: "cmd/internal/scan", ours: []string{"cmd/internal/author/kit", "cmd/internal/cli",
		"cmd/internal/scan/gitignore", "config", "config/strict", "core/chain", "core/regular", "core/wasm/host", "scanners",
		"sdk", "sdk/abi"},
		others: []string{"github.com/spf13/cobra", "golang.org/x/crypto"},
		tests:  []string{"github.com/santhosh-tekuri/jsonschema/v6"},
		why:    "files are scanned by the chain and the host of a gateway, without one"},
	{pkg: "cmd/internal/scan/gitignore", why: "patterns are compared in one way; it opens no file"},
	{pkg: "cmd/internal/bench", ours: []string{"cmd/internal/agents/hook", "cmd/internal/agents/hookfile", "sdk/client", "core/pin", "cmd/internal/cli", "core/chain", "core/httpd", "core/peer", "core/prefilter", "core/prochost", "core/wasm/host", "scanners", "sdk", "sdk/abi", "sdk/exact"},
		others: []string{"github.com/spf13/cobra", "golang.org/x/sys"},
		why:    "the benchmark measures a gateway from outside; a raw server stands beside it"},
	{pkg: "cmd/internal/bench/benchplugin", ours: []string{"sdk", "sdk/plugin"}, why: "the benchmark's plugin gets no door that a vendor lacks"},
	{pkg: "cmd/internal/agents/hook", ours: []string{"sdk/exact", "sdk/wire"},
		why: "what agents say and understand is pure: no network, no files, no command"},
	{pkg: "cmd/internal/agents/hookfile", ours: []string{"core/regular", "sdk/exact"},
		why: "what a hook trusts is one file, which knows no command and no network"},
	{pkg: "cmd/internal/agents/wrap", ours: []string{"cmd/internal/agents/hook", "core/regular", "sdk/exact", "sdk/wire"},
		why: "a hook starts fast: what it writes for yett exec knows no terminal, no command and no network"},
	{pkg: "cmd/internal/agents/hookrun", ours: []string{"cmd/internal/agents/hook", "cmd/internal/agents/hookfile",
		"cmd/internal/agents/wrap", "sdk", "sdk/client", "sdk/wire"}, others: []string{"golang.org/x/sys"},
		why: "a hook gets no door that another agent lacks, and nothing that is slow to start"},
	{pkg: "cmd/yett-hook", ours: []string{"cmd/internal/agents/hookrun"}, why: "it starts a hook, and nothing else"},
	{pkg: "cmd/internal/agents/doctor", ours: []string{"cmd/internal/agents/connect", "cmd/internal/agents/hook",
		"cmd/internal/agents/hookfile", "cmd/internal/agents/hookrun", "cmd/internal/agents/model",
		"cmd/internal/agents/wrap", "cmd/internal/cli", "core/regular", "sdk/client", "sdk/wire"},
		others: []string{"github.com/spf13/cobra"},
		why:    "it looks at what the agent's user can see, and asks as a hook does"},
	{pkg: "cmd/internal/agents/execrun", ours: []string{"cmd/internal/agents/hook", "cmd/internal/agents/hookfile",
		"cmd/internal/agents/hookrun", "cmd/internal/agents/wrap", "cmd/internal/cli", "sdk/client", "sdk/wire"},
		others: []string{"github.com/creack/pty", "github.com/spf13/cobra", "golang.org/x/sys"},
		why:    "output is scanned through the door that every agent has; only it knows how a terminal is made"},
	{pkg: "cmd/internal/agents/live", ours: []string{"cmd/internal/agents/hook", "cmd/internal/agents/hookfile", "cmd/internal/agents/model", "cmd/internal/agents/rig", "sdk/client"},
		why: "real agents are governed as their users would: by the program and its files; only tests import the rig"},
	{pkg: "cmd/internal/agents/mcpbridge", ours: []string{"cmd/internal/agents/hookfile", "cmd/internal/cli", "core/regular",
		"sdk/exact", "sdk/wire"}, others: []string{"github.com/spf13/cobra"},
		tests: []string{"config", "core/doors/front", "core/mcpd", "core/testkit/doortest"},
		why:   "it carries messages to the gateway and decides nothing; it trusts the hook's own file as hooks do"},
	{pkg: "cmd/internal/agents/connect", ours: []string{"cmd/internal/agents/hook", "cmd/internal/agents/hookfile",
		"cmd/internal/agents/jsontext", "cmd/internal/agents/swap", "cmd/internal/agents/tomltext",
		"cmd/internal/agents/wrap", "cmd/internal/cli",
		"core/regular"},
		others: []string{"github.com/spf13/cobra"},
		why:    "the configurations of agents are changed in one place; whoever makes keys is handed in"},
	{pkg: "cmd/internal/agents/jsontext", ours: []string{"sdk/exact"}, why: "JSON is edited as text in one way; it knows no agent"},
	{pkg: "cmd/internal/agents/tomltext", others: []string{"github.com/pelletier/go-toml/v2"}, why: "TOML is edited as text in one way; only it knows TOML, and no agent"},
	{pkg: "cmd/internal/agents/swap", ours: []string{"core/regular"}, others: []string{"golang.org/x/sys"}, why: "files that others edit too are replaced in one way; it knows nothing of what is in them"},
	{pkg: "cmd/internal/agents/model", why: "a model's wire forms are foreign: it stands alone, so that hooks are judged by what no code of theirs wrote"},
	{pkg: "cmd/internal/agents/rig", ours: []string{"cmd/internal/agents/model"}, others: []string{"golang.org/x/sys"}, why: "real agents are started in one private place, made by the kernel's calls; only tests import it"},
	{pkg: "cmd/internal/agents/rig/mcpserver", why: "a server for tests is by its specification alone"},
	{pkg: "cmd/internal/mcptest", ours: []string{"cmd/internal/e2e", "cmd/internal/mcptest/rawmcp"},
		why: "a gateway is measured from outside, by programs and raw bytes; only tests import it"},
	{pkg: "cmd/internal/mcptest/rawmcp", why: "a server for tests is by its specification alone"},
	{pkg: "cmd/internal/mcptest/rawserver", ours: []string{"cmd/internal/mcptest/rawmcp"}, why: "it starts the raw server as a program, and nothing else"},
	{pkg: "cmd/internal/lint", why: "the house rules read files only"},
	{pkg: "examples/*", ours: []string{"sdk", "sdk/..."}, why: "an example may use what an outsider can"},
}

// signing is what plugins that send signed requests may import.
var signing = []string{"sdk", "sdk/exact", "sdk/plugin", "plugins/internal/signedhttp"}

// forTests are libraries that any test may import. No test gets another package's library by them.
var forTests = []string{"go.uber.org/goleak", "pgregory.net/rapid", "github.com/anishathalye/porcupine",
	"github.com/getkin/kin-openapi", "github.com/rogpeppe/go-internal", "github.com/cockroachdb/datadriven",
	"go.yaml.in/yaml/v3", "golang.org/x/mod", "golang.org/x/sys"}

// belowCore says which packages core stands on: their tests may not reach up into it.
func belowCore(pkg string) bool {
	return pkg == "config" || pkg == "config/strict" ||
		pkg == "sdk" || strings.HasPrefix(pkg, "sdk/") || strings.HasPrefix(pkg, "scanners")
}

func imports(tr *tree) []string {
	var out []string
	missing := map[string]bool{}
	for _, f := range tr.goFiles(true) {
		r := rowOf(f.dir())
		if r == nil {
			if !missing[f.dir()] {
				out = append(out, fmt.Sprintf("%s: the package has no row in cmd/internal/lint/imports_test.go: add what it may "+
					"import and one sentence why", f.dir()))
			}
			missing[f.dir()] = true
			continue
		}
		for _, im := range f.ast.Imports {
			if why := r.refuses(strings.Trim(im.Path.Value, `"`), f); why != "" {
				out = append(out, tr.at(im)+why)
			}
		}
	}
	return out
}

func rowOf(dir string) *row {
	for i, r := range allowed {
		if r.pkg == dir {
			return &allowed[i]
		}
	}
	for i, r := range allowed {
		if path.Base(r.pkg) == "*" && path.Dir(r.pkg) == path.Dir(dir) {
			return &allowed[i]
		}
	}
	return nil
}

// refuses gives the reason why a file may not import something, or "".
func (r *row) refuses(name string, f *file) string {
	switch rest, ours := strings.CutPrefix(name, ourModule+"/"); {
	case ours:
		if rest == f.dir() || matches(r.ours, rest) {
			return ""
		}
		if rest == "core" {
			return "only cmd imports core: hand over what is needed from there"
		}
		if f.test() && !(belowCore(r.pkg) && strings.HasPrefix(rest, "core/")) && !strings.HasPrefix(rest, "cmd/") {
			return "" // a test may use its neighbours, but nothing that stands above
		}
		return fmt.Sprintf("%s may not import %s (%s): move the code, or declare an interface here and let the "+
			"caller fill it", r.pkg, rest, r.why)
	case name == "C":
		return "no cgo: the gateway is one static binary"
	case !strings.Contains(strings.Split(name, "/")[0], "."):
		return "" // standard library
	}
	if within(r.others, name) || f.test() && (within(forTests, name) || within(r.tests, name)) {
		return ""
	}
	for _, other := range allowed {
		if within(other.others, name) {
			return fmt.Sprintf("%s may not import %s: only %s knows that library, ask it", r.pkg, name, other.pkg)
		}
	}
	return fmt.Sprintf("%s may not import %s: use the standard library, or add the module to its row with the reason",
		r.pkg, name)
}

func matches(patterns []string, pkg string) bool {
	return slices.ContainsFunc(patterns, func(p string) bool {
		if base, all := strings.CutSuffix(p, "/..."); all {
			return strings.HasPrefix(pkg, base+"/")
		}
		return p == pkg
	})
}

func within(modules []string, name string) bool {
	return slices.ContainsFunc(modules, func(m string) bool { return name == m || strings.HasPrefix(name, m+"/") })
}
