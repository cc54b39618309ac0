package admin

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/yett-dev/yett/cmd/internal/cli"
	"github.com/yett-dev/yett/core/admin"
	"github.com/yett-dev/yett/core/log"
	"github.com/yett-dev/yett/core/regular"
	"github.com/yett-dev/yett/core/store"
)

// maxProof bounds a proof or a file of checkpoints, in bytes.
const maxProof = 64 << 20

// verify is what yett audit verify is told.
type verify struct {
	t                 target
	keys, checkpoints []string
	invariants        bool
	out               cli.Output
}

func auditVerify() *cobra.Command {
	var v verify
	cmd := &cobra.Command{
		Use:   "verify FILE | --data DIR",
		Short: "Check an export or a proof: nothing was changed, dropped, added or cut",
		Long: "Check a file that yett audit export or yett audit prove wrote (- is stdin). No server is needed.\n" +
			"With --data DIR, check the whole log of a data directory, server stopped or running.\n" +
			"Take the key and the checkpoints from elsewhere than the file: whoever owns the gateway's key can sign\n" +
			"another log, and only a checkpoint that was kept outside tells.\n\n" +
			"Exit code 0: intact. 2: it could not be checked. 3: it was changed or cut; the first bad record is named.",
		Example: "  yett audit verify log.jsonl --key \"$(yett audit key --data /var/lib/yett)\"\n" +
			"  yett audit verify log.jsonl --key audit.pub --checkpoint january.jsonl --invariants\n" +
			"  yett audit verify --data /var/lib/yett --key audit.pub --invariants\n" +
			"  yett audit prove 17 --data /var/lib/yett > 17.tlog-proof && yett audit verify 17.tlog-proof --key audit.pub",
		Args: cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			what, open, err := v.source(cmd, args)
			if err != nil {
				return err
			}
			err = v.run(cmd, open)
			var coded *cli.ExitError
			switch {
			case err == nil || errors.As(err, &coded):
				return err
			case log.IsFault(err):
				return cli.Fail(cli.ExitTampered, fmt.Errorf("%s was changed or cut: %w", what, err))
			}
			return cli.Fail(cli.ExitUsage, fmt.Errorf("%s could not be checked: %w", what, err))
		},
	}
	v.t.bind(cmd)
	fs := cmd.Flags()
	fs.StringArrayVar(&v.keys, "key", nil, "the public key of the log, or a file with it (see yett audit key); may be "+
		"repeated")
	fs.StringArrayVar(&v.checkpoints, "checkpoint", nil, "a file with earlier checkpoints of the log, or an earlier "+
		"export of it; may be repeated")
	fs.BoolVar(&v.invariants, "invariants", false, "also replay the records: no permit after the revoke of its key or "+
		"under a kill, no grant over its uses, no approval spent twice or given by who asked")
	v.out.Bind(cmd)
	return cmd
}

// source is what is to be checked: a file, stdin, or the log of a data directory.
func (v *verify) source(cmd *cobra.Command, args []string) (what string, open func() (io.ReadCloser, error),
	err error) {
	stored := v.t.data != "" || v.t.config != ""
	switch {
	case stored == (len(args) == 1):
		return "", nil, cli.Usage("give one of a FILE, - for stdin, and --data DIR or --config FILE")
	case !stored && args[0] == "-":
		return "-", func() (io.ReadCloser, error) { return io.NopCloser(cmd.InOrStdin()), nil }, nil
	case !stored:
		return args[0], func() (io.ReadCloser, error) { return regular.Named(cmd.Context(), args[0]) }, nil
	}
	dir, err := v.t.dir()
	return "the log of " + dir, func() (io.ReadCloser, error) {
		r, w := io.Pipe()
		go func() { w.CloseWithError(fetch(cmd.Context(), dir, log.Range{}, w)) }()
		return r, nil
	}, err
}

func (v *verify) run(cmd *cobra.Command, open func() (io.ReadCloser, error)) error {
	keys, err := v.trusted()
	if err != nil {
		return err
	}
	in, err := open()
	if err != nil {
		return err
	}
	defer in.Close()
	r := bufio.NewReaderSize(in, 1<<16)
	if head, _ := r.Peek(len(log.ProofFormat) + 1); log.IsProof(head) {
		return v.proof(cmd, r, keys)
	}
	o := log.VerifyOptions{Keys: keys, Invariants: v.invariants}
	if o.Earlier, err = v.earlier(cmd.Context()); err != nil {
		return err
	}
	found, err := log.Verify(r, o)
	if err != nil {
		return err
	}
	return v.out.PrintOr(cmd.OutOrStdout(), found, func(w io.Writer) error {
		fmt.Fprintf(w, "intact: records %d to %d of store %s, signed with key %s\n", found.FromSeq, found.ToSeq,
			found.StoreID, found.KeyID)
		for _, l := range found.Earlier {
			fmt.Fprintf(w, "records up to %d are of store %s, epoch %d: the log was restored from a backup behind them\n",
				min(l.ToSeq, found.ToSeq), l.StoreID, l.Epoch)
		}
		switch {
		case !found.SignatureChecked:
			fmt.Fprintln(w, "key not pinned: the file has no public key, so no signature was checked; give --key")
		case !found.KeyPinned:
			fmt.Fprintln(w, notPinned)
		}
		if n := len(found.Checkpoints); n > 0 {
			fmt.Fprintf(w, "agrees with %s of %s\n", cli.Count(n, "checkpoint"), cli.Count(len(v.checkpoints), "file"))
		}
		if c := found.Invariants; c != nil {
			fmt.Fprintf(w, "invariants hold: %s (%d by approvals), %s of grants, %s, %s\n",
				cli.Count(int(c.Permits), "permit"), c.Approvals, cli.Count(int(c.Spent), "use"),
				cli.Count(int(c.Revoked), "revoked key"), cli.Count(int(c.Kills), "kill"))
			if c.Unknown > 0 {
				fmt.Fprintf(w, "%s began before record %d and could not be checked\n", cli.Count(int(c.Unknown), "permit"),
					found.FromSeq)
			}
		}
		return nil
	})
}

const notPinned = "key not pinned: it was taken from the file itself; give --key to be sure whose log it is"

func (v *verify) proof(cmd *cobra.Command, r io.Reader, keys log.Keys) error {
	if len(v.checkpoints) > 0 || v.invariants {
		return cli.Usage("--checkpoint and --invariants are for exports; this is a proof of one record")
	}
	if len(keys) == 0 {
		return cli.Usage("--key is required: a proof does not hold the public key (see yett audit key)")
	}
	data, err := io.ReadAll(io.LimitReader(r, maxProof))
	if err != nil {
		return err
	}
	p, err := log.OpenProof(data, keys)
	if err != nil {
		return err
	}
	row := struct {
		Seq    uint64 `json:"seq"`
		Origin string `json:"origin"`
		Size   uint64 `json:"size"`
		Record string `json:"record"`
	}{p.Seq, p.Origin, p.Size, string(p.Record)}
	return v.out.PrintOr(cmd.OutOrStdout(), row, func(w io.Writer) error {
		_, err := fmt.Fprintf(w, "proved: record %d is among the first %d records of %s\n%s\n", p.Seq, p.Size, p.Origin,
			cli.Visible(string(p.Record)))
		return err
	})
}

func (v *verify) trusted() (log.Keys, error) {
	var all log.Keys
	for _, k := range v.keys {
		name := k
		if data, err := regular.Read(k, 4<<10); err == nil {
			k = string(data)
		} else if !strings.Contains(k, "+") {
			return nil, fmt.Errorf("--key %s is neither a public key nor a file with one: %w", k, err)
		}
		keys, err := log.ParseKeys(k)
		if err != nil {
			return nil, fmt.Errorf("--key %s: %w", name, err)
		}
		all = append(all, keys...)
	}
	return all, nil
}

func (v *verify) earlier(ctx context.Context) ([]log.Earlier, error) {
	var out []log.Earlier
	for _, file := range v.checkpoints {
		data, err := head(ctx, file)
		if err != nil {
			return nil, fmt.Errorf("--checkpoint: %w", err)
		}
		texts, err := log.SplitCheckpoints(data)
		if err != nil {
			return nil, fmt.Errorf("--checkpoint %s: %w", file, err)
		}
		for i, text := range texts {
			from := file
			if len(texts) > 1 {
				from = fmt.Sprintf("%s (%d)", file, i+1)
			}
			out = append(out, log.Earlier{From: from, Text: text})
		}
	}
	return out, nil
}

// head is a whole file of checkpoints, or the first line of an export, which may be large.
func head(ctx context.Context, file string) ([]byte, error) {
	f, err := regular.Named(ctx, file)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	r := bufio.NewReader(io.LimitReader(f, maxProof))
	if first, err := r.Peek(1); err == nil && first[0] == '{' {
		line, err := r.ReadBytes('\n')
		return bytes.TrimSuffix(line, []byte("\n")), err
	}
	return io.ReadAll(r)
}

func auditProve() *cobra.Command {
	var t target
	var out cli.Output
	cmd := &cobra.Command{
		Use:   "prove SEQ",
		Short: "Print a proof that a record is in the log",
		Long: "Print a proof that a record is in the log as of now, server stopped or running: a C2SP tlog-proof that has\n" +
			"the record, its inclusion in the tree and a signed checkpoint. Whoever has the public key checks it without\n" +
			"the rest of the log.",
		Example: "  yett audit prove 17 --data /var/lib/yett > 17.tlog-proof",
		Args:    cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			seq, err := strconv.ParseUint(args[0], 10, 63)
			if err != nil || seq == 0 {
				return cli.Usage("%q is no number of a record", args[0])
			}
			dir, err := t.dir()
			if err != nil {
				return err
			}
			proof, err := prove(cmd.Context(), dir, seq)
			if err != nil {
				return err
			}
			row := struct {
				Seq   uint64 `json:"seq"`
				Proof string `json:"proof"`
			}{seq, proof}
			return out.PrintOr(cmd.OutOrStdout(), row, func(w io.Writer) error {
				_, err := io.WriteString(w, proof)
				return err
			})
		},
	}
	t.bind(cmd)
	out.Bind(cmd)
	return cmd
}

// prove asks the running server, or opens the store itself when none runs.
func prove(ctx context.Context, dir string, seq uint64) (proof string, err error) {
	c, err := admin.Dial(dir)
	if err == nil {
		defer c.Close()
		var out struct{ Proof string }
		err = c.Do(ctx, "GET", fmt.Sprintf("/audit/proof/%d", seq), nil, &out)
		proof = out.Proof
	}
	if !errors.Is(err, admin.ErrNoServer) {
		return proof, err
	}
	err = offline(dir, func(s *store.Store, signer *log.Signer) error {
		text, err := s.Prove(seq, signer)
		proof = string(text)
		return err
	})
	return proof, err
}
