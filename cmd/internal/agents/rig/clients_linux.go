package rig

import "fmt"

// Client is one coding agent: how it is started without a person, and how it is pointed at a scripted model.
type Client struct {
	Name    string // as in yett hook NAME
	program string // below node_modules
	files   func(Run) map[string]string
	setup   func(Run) []string // arguments of a run before, or nil
	args    func(Run) []string
	env     func(*Place, Run) []string
}

func noFiles(Run) map[string]string { return nil }

// Table is every client that runs without a service of its vendor. Each one permits all tools by itself: what a hook
// does is what stops a call.
var Table = []Client{
	{
		Name: "claude-code", program: "claude-code/claude", files: noFiles,
		args: func(r Run) []string {
			args := []string{"--output-format", "stream-json", "--verbose", "--include-hook-events",
				"--permission-mode", "bypassPermissions"}
			return append(append(args, r.Args...), "-p", r.Prompt)
		},
		env: func(_ *Place, r Run) []string {
			return []string{"ANTHROPIC_BASE_URL=" + r.Model.URL(), "ANTHROPIC_API_KEY=" + r.Model.Key(),
				"CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC=1", "DISABLE_AUTOUPDATER=1"}
		},
	},
	{
		Name: "codex", program: "codex/vendor/x86_64-unknown-linux-musl/bin/codex",
		files: func(r Run) map[string]string {
			return map[string]string{".codex/config.toml": fmt.Sprintf(`model = "scripted"
model_provider = "scripted"
[model_providers.scripted]
name = "scripted"
base_url = "%s/v1"
wire_api = "responses"
env_key = "SCRIPTED_KEY"
request_max_retries = 0
stream_max_retries = 0
`, r.Model.URL())}
		},
		args: func(r Run) []string {
			args := []string{"exec", "--json", "--skip-git-repo-check", "--dangerously-bypass-approvals-and-sandbox"}
			return append(append(args, r.Args...), r.Prompt)
		},
		env: func(p *Place, r Run) []string {
			return []string{"CODEX_HOME=" + p.Home + "/.codex", "SCRIPTED_KEY=" + r.Model.Key()}
		},
	},
	{
		Name: "copilot", program: "copilot/copilot", files: noFiles,
		args: func(r Run) []string {
			return append(append([]string{"--allow-all-tools", "--no-color"}, r.Args...), "-p", r.Prompt)
		},
		env: func(_ *Place, r Run) []string {
			return []string{"COPILOT_OFFLINE=true", "COPILOT_PROVIDER_BASE_URL=" + r.Model.URL() + "/v1",
				"COPILOT_MODEL=scripted", "COPILOT_PROVIDER_API_KEY=" + r.Model.Key()}
		},
	},
	{
		Name: "gemini", program: "gemini/bundle/gemini.js",
		files: func(Run) map[string]string {
			return map[string]string{".gemini/settings.json": `{"security":{"auth":{"selectedType":"gemini-api-key"}},` +
				`"general":{"enableAutoUpdate":false},"privacy":{"usageStatisticsEnabled":false},` +
				`"telemetry":{"enabled":false}}`}
		},
		args: func(r Run) []string {
			return append(append([]string{"--approval-mode=yolo", "-m", "gemini-2.5-pro"}, r.Args...), "-p", r.Prompt)
		},
		env: func(_ *Place, r Run) []string {
			return []string{"GOOGLE_GEMINI_BASE_URL=" + r.Model.URL(), "GEMINI_API_KEY=" + r.Model.Key(),
				"GEMINI_CLI_TRUST_WORKSPACE=true"}
		},
	},
	{
		Name: "opencode", program: "opencode/bin/opencode",
		files: func(r Run) map[string]string {
			return map[string]string{".config/opencode/opencode.json": fmt.Sprintf(`{"model":"scripted/scripted",`+
				`"small_model":"scripted/scripted","autoupdate":false,"share":"disabled","provider":{"scripted":{`+
				`"npm":"@ai-sdk/openai-compatible","name":"scripted","options":{"baseURL":"%s/v1","apiKey":"%s"},`+
				`"models":{"scripted":{"name":"scripted","tool_call":true,"limit":{"context":200000,"output":8192}}}}}}`,
				r.Model.URL(), r.Model.Key())}
		},
		args: func(r Run) []string {
			return append(append([]string{"run", "--print-logs", "--format", "json"}, r.Args...), r.Prompt)
		},
		env: func(p *Place, _ Run) []string {
			return []string{"OPENCODE_DISABLE_AUTOUPDATE=1", "OPENCODE_DISABLE_MODELS_FETCH=1",
				"OPENCODE_DISABLE_LSP_DOWNLOAD=1", "NPM_CONFIG_REGISTRY=" + p.dead}
		},
	},
	{
		Name: "cline", program: "cline/bin/cline", files: noFiles,
		setup: func(r Run) []string {
			return []string{"auth", "-p", "openai", "-k", r.Model.Key(), "-m", "scripted", "-b", r.Model.URL() + "/v1"}
		},
		args: func(r Run) []string { return append(append([]string{"--json"}, r.Args...), r.Prompt) },
		env:  func(*Place, Run) []string { return nil },
	},
}
