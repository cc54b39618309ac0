package model

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
)

// shells are the names that clients give to the tool that runs a shell command, the usual one of each first.
var shells = []string{"Bash", "exec_command", "shell_command", "shell", "run_shell_command", "bash", "run_commands",
	"execute_command"}

// Shell calls whatever tool the client offers for shell commands.
func Shell(command string) Call {
	return Call{Pick: func(r *Request) (Call, error) {
		return pick(r, "shell commands", shells, func(name string, s *schema) (map[string]any, error) {
			for _, p := range []string{"command", "cmd", "commands"} {
				raw, ok := s.Properties[p]
				if !ok {
					continue
				}
				var of schema
				if err := json.Unmarshal(raw, &of); err != nil {
					return nil, fmt.Errorf("the schema of %s in %s is unreadable: %w", p, name, err)
				}
				switch {
				case of.kind() == "array" && p == "commands":
					return map[string]any{p: []string{command}}, nil
				case of.kind() == "array":
					return map[string]any{p: []string{"sh", "-c", command}}, nil
				default:
					return map[string]any{p: command}, nil
				}
			}
			return nil, fmt.Errorf("the tool %s has no parameter command, cmd or commands", name)
		})
	}}
}

// readers are the names that clients give to the tool that reads a file.
var readers = []string{"Read", "read_file", "view", "read", "read_files"}

// ReadFile calls whatever tool the client offers for reading a file. Codex has none: it reads by shell.
func ReadFile(path string) Call {
	return Call{Pick: func(r *Request) (Call, error) {
		return pick(r, "reading a file", readers, func(name string, s *schema) (map[string]any, error) {
			return place(name, s, path)
		})
	}}
}

// writers are the names that clients give to the tool that writes a whole file.
var writers = []string{"Write", "write_file", "create", "write", "write_to_file", "editor"}

// WriteFile calls whatever tool the client offers for writing a new file. Codex has none: it patches.
func WriteFile(path, content string) Call {
	return Call{Pick: func(r *Request) (Call, error) {
		return pick(r, "writing a file", writers, func(name string, s *schema) (map[string]any, error) {
			args, err := place(name, s, path)
			if err != nil {
				return nil, err
			}
			for _, p := range []string{"content", "file_text", "new_text"} {
				if _, ok := s.Properties[p]; ok {
					args[p] = content
					return args, nil
				}
			}
			return nil, fmt.Errorf("the tool %s has no parameter content, file_text or new_text", name)
		})
	}}
}

// place sets the parameter that says where a file is.
func place(name string, s *schema, path string) (map[string]any, error) {
	for _, p := range []string{"file_path", "absolute_path", "filePath", "path"} {
		if _, ok := s.Properties[p]; ok {
			return map[string]any{p: path}, nil
		}
	}
	if _, ok := s.Properties["files"]; ok {
		return map[string]any{"files": []map[string]any{{"path": path}}}, nil
	}
	return nil, fmt.Errorf("the tool %s has no parameter file_path, absolute_path, filePath, path or files", name)
}

// MCP calls a tool of an MCP server, by the name that the client gives it.
func MCP(server, tool string, arguments []byte) Call {
	return Call{Pick: func(r *Request) (Call, error) {
		for _, t := range r.Tools {
			grouped := t.Name == tool && strings.TrimSuffix(t.Namespace, "__") == "mcp__"+server
			if grouped || slices.Contains(mcpNames(server, tool), t.Name) {
				return Call{Tool: t.Name, Namespace: t.Namespace, Arguments: arguments}, nil
			}
		}
		return Call{}, fmt.Errorf("the client offers no tool %s of the MCP server %s: %s", tool, server, offered(r))
	}}
}

func mcpNames(server, tool string) []string {
	return []string{"mcp__" + server + "__" + tool, "mcp_" + server + "_" + tool, server + "__" + tool,
		server + "-" + tool, server + "_" + tool}
}

// pick finds the first offered tool of names and lets fill make its arguments. Other parameters that it requires get
// the smallest value that their schema allows.
func pick(r *Request, use string, names []string, fill func(string, *schema) (map[string]any, error)) (Call, error) {
	for _, name := range names {
		t, ok := r.Tool(name)
		if !ok || t.Custom {
			continue
		}
		var s schema
		if err := json.Unmarshal(t.Parameters, &s); err != nil {
			return Call{}, fmt.Errorf("the schema of the tool %s is unreadable: %w", name, err)
		}
		args, err := fill(name, &s)
		if err != nil {
			return Call{}, err
		}
		for _, p := range s.Required {
			if _, done := args[p]; done {
				continue
			}
			if args[p], err = smallest(s.Properties[p], 0); err != nil {
				return Call{}, fmt.Errorf("parameter %s of the tool %s: %w", p, name, err)
			}
		}
		raw, err := encode(args)
		return Call{Tool: t.Name, Namespace: t.Namespace, Arguments: raw}, err
	}
	return Call{}, fmt.Errorf("the client offers no known tool for %s: %s", use, offered(r))
}

func offered(r *Request) string {
	if len(r.Tools) == 0 {
		return "it offers no tools"
	}
	names := make([]string, len(r.Tools))
	for i, t := range r.Tools {
		names[i] = t.Name
	}
	return "it offers " + strings.Join(names, ", ")
}
