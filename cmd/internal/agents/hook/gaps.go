package hook

// Gap is a way past an agent's hooks that no answer of ours can close.
type Gap struct {
	What string // what is not covered, or when
	Do   string // what closes it, if anything
}

const (
	gateway   = "Put the server behind Yett's MCP gateway."
	wrapShell = "Connect the agent with --wrap for shell commands. Refuse other tools whose output must not leak."
)

var rewrites = Gap{"Another hook may rewrite the input after Yett has decided.",
	"Let Yett be the only hook that rewrites."}

// Gaps are the ways past an agent's hooks, for `yett doctor` and for the documents.
func Gaps(agent Agent) []Gap { return gaps[agent] }

var gaps = map[Agent][]Gap{
	ClaudeCode: {
		{"Hooks of a user, a project or --settings do not run under --bare, --safe-mode or disableAllHooks.",
			"Install the hooks in /etc/claude-code/managed-settings.json and set allowManagedHooksOnly."},
		{"Versions before 2.1.296 ignore onFailure: only the guard line refuses there.", "Update Claude Code."},
		{"A hook with async: true cannot refuse.", "Keep async out of Yett's hooks."},
		rewrites,
		{"The output of a failed tool cannot be replaced. If it holds a secret, PostToolBatch ends the turn.", wrapShell},
		{"The output of a tool whose shape Yett does not know cannot be replaced by a notice: the turn ends.", ""},
		{"HTTP hooks run the tool on a status other than 200 unless onFailure blocks.", "Use the command form."},
		{"VS Code, Copilot and Cursor run Claude Code's hook files too. VS Code's and Cursor's input is refused. Copilot's " +
			"looks like Claude Code's, and whether it obeys the output side is not known.",
			"Give each agent its own hooks with `yett connect`."},
	},
	Codex: {
		rewrites,
		{"Hooks that are not managed are skipped without a word until the user reviews them, and after every change.",
			"Install the hooks in /etc/codex/requirements.toml and set allow_managed_hooks_only."},
		{"A hook whose working directory has vanished is skipped.", ""},
		{"Built-in tools such as view_image and web search have hooks in some versions only.",
			"Run `yett doctor codex` with the version you use."},
		{"The names of server and tool are joined with two underscores, which both may contain.", gateway},
		{"A tool that has failed is not marked as failed.", ""},
	},
	Gemini: {
		rewrites,
		{"Project hooks are skipped in a folder that is not trusted.", "Install the hooks in the system settings file."},
		{"The hook's environment is filtered.", "Keep the key in Yett's own file."},
		{"New arguments are merged into the old ones: a call that was approved with a member less is refused.", ""},
		{"A person cannot be asked: a question without a terminal hangs for ever.", "Approve in Yett's console."},
	},
	Copilot: {
		rewrites,
		{"Hooks of a repository are not loaded with -p in a folder that is not trusted, and disableAllHooks drops all " +
			"others.", "Install the hooks in /etc/github-copilot/policy.d, owned by root."},
		{"A timeout runs the tool, also in policy hooks: only the guard line's timeout refuses.",
			"Keep timeout(1) in the guard line."},
		{"The input does not name its event.", "Register preToolUse and postToolUse only."},
		{"Server and tool are joined with a hyphen, which both may contain.",
			"Tell the hook the names of your MCP servers. " + gateway},
		{"The cloud agent needs a gateway that its runner can reach and its firewall allows. It has not been run.", ""},
		{"A prompt cannot be refused.", ""},
	},
	Cursor: {
		rewrites,
		{"This adapter is written from documents. It has not been run.", ""},
		{"The output of the shell and of other built-in tools cannot be hidden.", wrapShell},
		{"The output of a failed tool cannot be hidden.", wrapShell},
		{"Without failClosed: true, a timeout or a missing binary runs the tool. Hooks that Cursor takes from Claude " +
			"Code's files never fail closed.", "Use `yett connect cursor`, or enterprise hooks."},
		{"preToolUse does not name the MCP server of a tool: it is asked about as mcp.-/TOOL.",
			"Register beforeMCPExecution, and preToolUse with a matcher for all other tools. " + gateway},
		{"One call runs preToolUse and also beforeShellExecution or beforeMCPExecution. If both are registered, an approval " +
			"is asked for twice.", "Register one of them."},
		{"Nothing is decided about subagentStart, and edits by Tab have no hook before them.", ""},
		{"Hooks of a project are skipped in a workspace that is not trusted.", "Use enterprise or user hooks."},
	},
	VSCode: {
		rewrites,
		{"This adapter is written from documents. It has not been run, and agent hooks are a preview.", ""},
		{"No output can be replaced. Yett ends the session; whether the model has read the output is not known.", wrapShell},
		{"A status other than 0 and 2, and a timeout, run the tool: only the guard line refuses.",
			"Keep timeout(1) in the guard line."},
		{"Arguments that do not have the tool's shape are ignored, so Yett rewrites only arguments of the same shape.", ""},
		{"Server and tool are joined with an underscore, which both may contain.",
			"Tell the hook the names of your MCP servers. " + gateway},
		{"Hooks run in a workspace's own files only as long as the organisation and the settings allow them.", ""},
	},
	OpenCode: {
		{"A plugin that cannot be loaded, and --pure, run every tool without a word.",
			"Run `yett doctor opencode` after each change."},
		{"There is no managed place for plugins: the agent's user can remove the file.", "Give the agent its own user."},
		{"After an error while OpenCode looks a tool up, the hook after it does not run.", ""},
		{"Numbers reach the plugin as JavaScript has rounded them. The call runs with these same numbers.", ""},
		{"Server and tool are joined with an underscore, which both may contain.",
			"Tell the hook the names of your MCP servers. " + gateway},
		{"A prompt is not scanned.", ""},
	},
	Cline: {
		{"Anything but a valid answer at status 0 runs the tool. A hook file that is not executable is not loaded.",
			"Run `yett doctor cline` after each change."},
		{"A refused call that is not a shell command ends the run.", ""},
		{"No output can be replaced. If it holds a secret, the run ends before the model reads it.", wrapShell},
		{"There is no managed place for hooks: the agent's user can remove the file.", "Give the agent its own user."},
		{"The hook for prompts may run beside the model instead of before it.", ""},
	},
	Windsurf: {
		{"This adapter is written from documents. It has not been run, and its input is documented in part only.", ""},
		{"No output can be hidden, replaced or refused.", gateway},
		{"Arguments cannot be changed, so shell commands cannot be wrapped: a call approved with changes is refused.", ""},
		{"Which failures other than status 2 run the tool is not known.", "Install the hooks in /etc/windsurf/hooks.json."},
		{"Only reading, writing, commands and MCP tools have hooks before them.", ""},
	},
}
