package author

import (
	"embed"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/yett-dev/yett/cmd/internal/author/project"
	"github.com/yett-dev/yett/cmd/internal/cli"
)

//go:embed packs
var packFiles embed.FS

// Packs are the policies that a new configuration can begin with, with a sentence for each.
var Packs = [][2]string{
	{"coding-agent", "Claude Code, Codex, Gemini CLI and others: plain commands and files of the project run, the rest is asked"},
	{"support-agent", "answers customers: small refunds within a daily budget, larger ones and accounts with approval"},
	{"payments", "moves money: small payouts within a daily budget, larger ones and new payees with one or two approvals"},
}

// Init writes the first configuration of a gateway.
func Init() *cobra.Command {
	var dir string
	var out cli.Output
	names := make([]string, len(Packs))
	var list strings.Builder
	for i, p := range Packs {
		names[i] = p[0]
		fmt.Fprintf(&list, "  %-14s %s\n", p[0], p[1])
	}
	cmd := &cobra.Command{
		Use:   "init " + strings.Join(names, "|"),
		Short: "Write a configuration to begin with: rules for a kind of agent, and cases that test them",
		Long: "Write a configuration to a folder of its own: yett.yaml, rules.yaml, cases.yaml and README.md. No file is " +
			"overwritten. The folder must not lie in a project that agents write to.\n\n" + list.String(),
		Example: "  yett init coding-agent --dir ~/yett-policy && cd ~/yett-policy && yett rules test cases.yaml && " +
			"yett dev yett.yaml --data ~/yett-data",
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) != 1 || !slices.Contains(names, args[0]) {
				got := "no pack is given"
				if len(args) > 0 {
					got = fmt.Sprintf("unknown pack %q", strings.Join(args, " "))
				}
				return cli.Usage("%s: expected one of %s (see yett init --help)", got, strings.Join(names, ", "))
			}
			if dir == "" {
				dir = args[0]
			}
			if err := apartFromProjects(dir); err != nil {
				return err
			}
			files, err := pack(args[0])
			if err != nil {
				return err
			}
			written, err := project.Write(dir, files)
			if err != nil {
				return err
			}
			if err := printWritten(cmd, &out, dir, written); err != nil {
				return err
			}
			fmt.Fprintf(cmd.ErrOrStderr(),
				"next: cd %s && yett rules test cases.yaml && yett dev yett.yaml --data ~/yett-data\n", cli.Quoted(dir))
			return nil
		},
	}
	out.Bind(cmd)
	cmd.Flags().StringVar(&dir, "dir", "", "folder to write to (default ./PACK)")
	return cmd
}

// apartFromProjects refuses a folder in a git repository: an agent may write in its project, and the gateway loads
// rules that have changed.
func apartFromProjects(dir string) error {
	abs, err := filepath.Abs(dir)
	if err != nil {
		return err
	}
	for at := abs; ; at = filepath.Dir(at) {
		if _, err := os.Lstat(filepath.Join(at, ".git")); err == nil {
			return cli.Usage("%s lies in the repository %s, where agents may write: choose a folder outside of all "+
				"projects, such as --dir ~/yett-policy", dir, at)
		}
		if at == filepath.Dir(at) {
			return nil
		}
	}
}

// pack are the files of a pack by their names.
func pack(name string) (map[string][]byte, error) {
	root := path.Join("packs", name)
	entries, err := packFiles.ReadDir(root)
	if err != nil {
		return nil, err
	}
	files := make(map[string][]byte, len(entries))
	for _, e := range entries {
		if files[e.Name()], err = fs.ReadFile(packFiles, path.Join(root, e.Name())); err != nil {
			return nil, err
		}
	}
	return files, nil
}
