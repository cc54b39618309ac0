package rig

import (
	"encoding/json"
	"fmt"
	"strings"
)

// Client is one coding agent: how it is started without a person, and how it is pointed at a scripted model.
type Client struct {
	Name    string // as in yett hook NAME
	program string // below node_modules
	files   func(Run) map[string]string
	setup   func(Run) []string // arguments of a run before, or nil
	args    func(*Place, Run) []string
	env     func(*Place, Run) []string
}

type object = map[string]any

// Table is every client that runs without a service of its vendor. Each one permits all tools by itself: what a hook
// does is what stops a call.
var Table = []Client{
	{Name: "claude-code", program: "claude-code/claude", files: claudeFiles, args: claudeArgs, env: claudeEnv},
	{Name: "codex", program: "codex/vendor/x86_64-unknown-linux-musl/bin/codex", files: codexFiles, args: codexArgs,
		env: codexEnv},
	{Name: "copilot", program: "copilot/copilot", files: copilotFiles, args: copilotArgs, env: copilotEnv},
	{Name: "gemini", program: "gemini/bundle/gemini.js", files: geminiFiles, args: geminiArgs, env: geminiEnv},
	{Name: "opencode", program: "opencode/bin/opencode", files: opencodeFiles, args: opencodeArgs, env: opencodeEnv},
	{Name: "cline", program: "cline/bin/cline", files: clineFiles, setup: clineSetup, args: clineArgs, env: clineEnv},
}

// servers are a run's MCP servers, each as the client wants to have it.
func servers(r Run, one func(command string, args []string) object) object {
	out := object{}
	for name, argv := range r.MCP {
		out[name] = one(argv[0], argv[1:])
	}
	return out
}

func plainServer(command string, args []string) object {
	return object{"command": command, "args": args}
}

// toJSON writes what this table makes, which is nothing that JSON lacks.
func toJSON(v any) string {
	raw, err := json.MarshalIndent(v, "", "  ")
	if err != nil {
		return err.Error()
	}
	return string(raw) + "\n"
}

const claudeMCP = ".claude/mcp-of-the-test.json"

func claudeFiles(r Run) map[string]string {
	return map[string]string{claudeMCP: toJSON(object{"mcpServers": servers(r, plainServer)})}
}

func claudeArgs(p *Place, r Run) []string {
	args := []string{"--output-format", "stream-json", "--verbose", "--include-hook-events", "--permission-mode",
		"bypassPermissions", "--strict-mcp-config", "--mcp-config", p.Home + "/" + claudeMCP}
	return append(append(args, r.Args...), "-p", r.Prompt)
}

// claudeEnv offers tools of MCP servers at once, not after a search for them.
func claudeEnv(_ *Place, r Run) []string {
	return []string{"ANTHROPIC_BASE_URL=" + r.Model.URL(), "ANTHROPIC_API_KEY=" + r.Model.Key(),
		"CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC=1", "DISABLE_AUTOUPDATER=1", "ENABLE_TOOL_SEARCH=false"}
}

func codexFiles(r Run) map[string]string {
	var b strings.Builder
	fmt.Fprintf(&b, `model = "scripted"
model_provider = "scripted"

[model_providers.scripted]
name = "scripted"
base_url = "%s/v1"
wire_api = "responses"
env_key = "SCRIPTED_KEY"
request_max_retries = 0
stream_max_retries = 0
`, r.Model.URL())
	for name, argv := range r.MCP {
		args := "[]" // JSON's strings and arrays are TOML's, too
		if len(argv) > 1 {
			args = strings.TrimSpace(toJSON(argv[1:]))
		}
		fmt.Fprintf(&b, "\n[mcp_servers.%s]\ncommand = %q\nargs = %s\n", name, argv[0], args)
	}
	return map[string]string{".codex/config.toml": b.String()}
}

func codexArgs(_ *Place, r Run) []string {
	args := []string{"exec", "--json", "--skip-git-repo-check", "--dangerously-bypass-approvals-and-sandbox"}
	return append(append(args, r.Args...), r.Prompt)
}

func codexEnv(p *Place, r Run) []string {
	return []string{"CODEX_HOME=" + p.Home + "/.codex", "SCRIPTED_KEY=" + r.Model.Key()}
}

func copilotFiles(r Run) map[string]string {
	return map[string]string{".copilot/mcp-config.json": toJSON(object{"mcpServers": servers(r,
		func(command string, args []string) object {
			return object{"type": "local", "command": command, "args": args, "tools": []string{"*"}}
		})})}
}

func copilotArgs(_ *Place, r Run) []string {
	return append(append([]string{"--allow-all-tools", "--no-color"}, r.Args...), "-p", r.Prompt)
}

func copilotEnv(_ *Place, r Run) []string {
	return []string{"COPILOT_OFFLINE=true", "COPILOT_PROVIDER_BASE_URL=" + r.Model.URL() + "/v1",
		"COPILOT_MODEL=scripted", "COPILOT_PROVIDER_API_KEY=" + r.Model.Key()}
}

func geminiFiles(r Run) map[string]string {
	return map[string]string{".gemini/settings.json": toJSON(object{
		"security": object{"auth": object{"selectedType": "gemini-api-key"}}, "general": object{"enableAutoUpdate": false},
		"privacy": object{"usageStatisticsEnabled": false}, "telemetry": object{"enabled": false},
		"mcpServers": servers(r, plainServer)})}
}

func geminiArgs(_ *Place, r Run) []string {
	return append(append([]string{"--approval-mode=yolo", "-m", "gemini-2.5-pro"}, r.Args...), "-p", r.Prompt)
}

func geminiEnv(_ *Place, r Run) []string {
	return []string{"GOOGLE_GEMINI_BASE_URL=" + r.Model.URL(), "GEMINI_API_KEY=" + r.Model.Key(),
		"GEMINI_CLI_TRUST_WORKSPACE=true"}
}

func opencodeFiles(r Run) map[string]string {
	return map[string]string{".config/opencode/opencode.json": toJSON(object{
		"model": "scripted/scripted", "small_model": "scripted/scripted", "autoupdate": false, "share": "disabled",
		"provider": object{"scripted": object{"npm": "@ai-sdk/openai-compatible", "name": "scripted",
			"options": object{"baseURL": r.Model.URL() + "/v1", "apiKey": r.Model.Key()},
			"models": object{"scripted": object{"name": "scripted", "tool_call": true,
				"limit": object{"context": 200000, "output": 8192}}}}},
		"mcp": servers(r, func(command string, args []string) object {
			return object{"type": "local", "command": append([]string{command}, args...), "enabled": true}
		})})}
}

func opencodeArgs(_ *Place, r Run) []string {
	return append(append([]string{"run", "--print-logs", "--format", "json"}, r.Args...), r.Prompt)
}

func opencodeEnv(p *Place, _ Run) []string {
	return []string{"OPENCODE_DISABLE_AUTOUPDATE=1", "OPENCODE_DISABLE_MODELS_FETCH=1",
		"OPENCODE_DISABLE_LSP_DOWNLOAD=1", "NPM_CONFIG_REGISTRY=" + p.dead}
}

func clineFiles(r Run) map[string]string {
	return map[string]string{".cline/data/settings/cline_mcp_settings.json": toJSON(object{
		"mcpServers": servers(r, plainServer)})}
}

func clineSetup(r Run) []string {
	return []string{"auth", "-p", "openai", "-k", r.Model.Key(), "-m", "scripted", "-b", r.Model.URL() + "/v1"}
}

func clineArgs(_ *Place, r Run) []string {
	return append(append([]string{"--json"}, r.Args...), r.Prompt)
}

func clineEnv(*Place, Run) []string { return nil }
