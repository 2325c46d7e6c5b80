package main

import (
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"stweaver/compiler"
	"stweaver/ir"
	"stweaver/lang"
)

func rulesCommand(a *app) *cobra.Command {
	c := &cobra.Command{
		Use:   "rules",
		Short: "Check, format and explain rules files",
		Long: `Rules files say what a plan must respect: lang/README.md is their reference.

  stweaver rules check train.rules                        is it right?
  stweaver rules check --profile run.pickle train.rules   and what does each selection take?
  stweaver rules explain --profile run.pickle train.rules what does each rule bind?
  stweaver rules fmt -w train.rules                       in the one canonical form`,
		Args: cobra.ArbitraryArgs,
		RunE: func(cmd *cobra.Command, in []string) error {
			if len(in) > 0 {
				return usagef("rules %s: there are check, explain and fmt", in[0])
			}
			return cmd.Help()
		},
	}
	c.AddCommand(rulesCheckCommand(a), rulesFmtCommand(a), rulesExplainCommand(a))
	return c
}

type rulesCheckOutput struct {
	OK          bool              `json:"ok"`
	Files       []string          `json:"files"`
	Statements  int               `json:"statements"`
	Diagnostics []lang.Diagnostic `json:"diagnostics"`
	More        int               `json:"more"` // further errors that are not listed
	Notes       []string          `json:"notes"`
	Selections  []compiler.Taken  `json:"selections,omitempty"` // with --profile
}

func rulesCheckCommand(a *app) *cobra.Command {
	var in string
	c := &cobra.Command{
		Use:   "check FILE...",
		Short: "Whether rules are right, and what their selections take of a profile",
		Long: `check reads rules files, in order, as one program, and lists all that is wrong with them: exit code 4, or 3 where one
of them cannot be read. With --profile it counts what each selection takes, too.`,
		Args: atLeastOne("rules file"),
		RunE: func(cmd *cobra.Command, files []string) error {
			p := lang.Load(a.openRules, files...)
			out := &rulesCheckOutput{OK: p.Err() == nil, Files: p.Files, Statements: len(p.Rules.Statements), Diagnostics: p.List, More: p.More, Notes: []string{}}
			if out.Diagnostics == nil {
				out.Diagnostics = []lang.Diagnostic{}
			}
			if in != "" && out.OK {
				c, err := a.analyse(cmd, in, p.Rules)
				if err != nil {
					return err
				}
				out.Selections, out.Notes = c.Taken(), append(out.Notes, c.RuleNotes...)
			}
			var err error
			if a.json {
				err = a.printJSON(out)
			} else {
				a.printRulesCheck(p, out)
			}
			switch {
			case err != nil || out.OK:
				return err
			case p.Unread:
				return &inputError{errors.New(p.Tally())}
			default:
				return &checkError{p.Tally()}
			}
		},
	}
	c.Flags().StringVar(&in, "profile", "", "count what each selection takes of the profile `IN`")
	return c
}

func atLeastOne(what string) cobra.PositionalArgs {
	return func(cmd *cobra.Command, got []string) error {
		if len(got) == 0 {
			return usagef("%s takes at least one %s", cmd.Name(), what)
		}
		return nil
	}
}

func (a *app) printRulesCheck(p *lang.Program, out *rulesCheckOutput) {
	fmt.Fprint(a.stdout, p.Diagnostics.String())
	if len(out.Selections) > 0 {
		fmt.Fprintf(a.stdout, "%-24s  %9s  %12s  %8s  %12s\n", "selection", "requests", "bytes", "buffers", "planned")
	}
	for _, s := range out.Selections {
		fmt.Fprintf(a.stdout, "%-24s  %9d  %12s  %8d  %12s\n", nameOf(s), s.Requests, compiler.Size(s.Bytes), s.Buffers, compiler.Size(s.Planned))
		for _, part := range s.Parts {
			fmt.Fprintf(a.stdout, "  %9d  %s\n", part.Requests, part.Text)
		}
	}
	for _, n := range out.Notes {
		fmt.Fprintln(a.stdout, n)
	}
	if out.OK {
		fmt.Fprintf(a.stdout, "ok: %d statements in %d files\n", out.Statements, len(out.Files))
	}
}

// nameOf is the name of a selection, or where it is written.
func nameOf(s compiler.Taken) string {
	if s.Name != "" {
		return s.Name
	}
	return "(" + s.At + ")"
}

// analyse reads a profile and resolves rules on it, without packing.
func (a *app) analyse(cmd *cobra.Command, in string, rules ir.Rules) (*compiler.Compiled, error) {
	t, err := a.readFor(in, &rules)
	if err != nil {
		return nil, err
	}
	c, err := compiler.Analyse(cmd.Context(), t, compiler.Options{Rules: rules})
	if err != nil {
		return nil, named(in, err)
	}
	return c, nil
}

type formattedJSON struct {
	File    string `json:"file"`
	Changed bool   `json:"changed"`
	Text    string `json:"text"`
}

func rulesFmtCommand(a *app) *cobra.Command {
	var write bool
	c := &cobra.Command{
		Use:   "fmt FILE...",
		Short: "Print rules files in their one canonical form",
		Long: `fmt prints rules files in their one canonical form; with -w it writes them back, where they differ. Comments are kept. A file
with mistakes of syntax is left alone: exit code 4.`,
		Args: atLeastOne("rules file"),
		RunE: func(_ *cobra.Command, files []string) error {
			out := []formattedJSON{}
			for _, file := range files {
				data, err := a.readInput(file)
				if err != nil {
					return err
				}
				text := string(data)
				got, d := lang.Format(file, text)
				if d.Errors() > 0 {
					fmt.Fprint(a.stderr, d.String())
					return &checkError{fmt.Sprintf("%s has mistakes of syntax", file)}
				}
				out = append(out, formattedJSON{file, got != text, got})
			}
			for _, f := range out {
				switch {
				case write && f.File != "-":
					if f.Changed {
						if err := writeAtomic(f.File, []byte(f.Text)); err != nil {
							return err
						}
						fmt.Fprintf(a.stderr, "stweaver: %s: rewritten\n", f.File)
					}
				case !a.json:
					if _, err := io.WriteString(a.stdout, f.Text); err != nil {
						return err
					}
				}
			}
			if a.json {
				return a.printJSON(struct {
					Files []formattedJSON `json:"files"`
				}{out})
			}
			return nil
		},
	}
	c.Flags().BoolVarP(&write, "write", "w", false, "write the files back instead of printing them")
	return c
}

type rulesExplainOutput struct {
	Digest     string               `json:"digest"`
	Rules      []compiler.RuleTaken `json:"rules"`
	Selections []compiler.Taken     `json:"selections"`
	Notes      []string             `json:"notes"`
}

func rulesExplainCommand(a *app) *cobra.Command {
	var in string
	c := &cobra.Command{
		Use:   "explain --profile IN FILE...",
		Short: "Which requests of a profile each rule takes, in bytes",
		Args:  atLeastOne("rules file"),
		RunE: func(cmd *cobra.Command, files []string) error {
			if in == "" {
				return usagef("explain needs --profile")
			}
			rules, err := a.loadRules(files)
			if err != nil {
				return err
			}
			c, err := a.analyse(cmd, in, rules)
			if err != nil {
				return err
			}
			out := &rulesExplainOutput{Digest: fmt.Sprintf("%x", rules.Digest()), Rules: c.RulesTaken(), Selections: append([]compiler.Taken{}, c.Taken()...), Notes: append([]string{}, c.RuleNotes...)}
			if a.json {
				return a.printJSON(out)
			}
			a.printExplained(out)
			return nil
		},
	}
	c.Flags().StringVar(&in, "profile", "", "the profile `IN`")
	return c
}

// shownGroups is how many groups of a selection are printed.
const shownGroups = 8

func (a *app) printExplained(out *rulesExplainOutput) {
	for _, r := range out.Rules {
		fmt.Fprintf(a.stdout, "%s\n    %s\n", r.Rule, r.What)
		for _, i := range r.Of {
			s := &out.Selections[i]
			fmt.Fprintf(a.stdout, "    %s: %d requests, %s; %d buffers, %s\n", nameOf(*s), s.Requests, compiler.Size(s.Bytes), s.Buffers, compiler.Size(s.Planned))
			for k, g := range s.Groups {
				if k == shownGroups {
					fmt.Fprintf(a.stdout, "        and %d more sizes\n", len(s.Groups)-k)
					break
				}
				first := strings.Trim(fmt.Sprint(g.First), "[]")
				if g.Requests > len(g.First) {
					first += " …"
				}
				fmt.Fprintf(a.stdout, "        %6d × %-12s %-10s stream %d, requests %s\n", g.Requests, compiler.Size(g.Size), g.Kind, g.Stream, first)
			}
		}
	}
	for _, n := range out.Notes {
		fmt.Fprintln(a.stdout, n)
	}
}
