package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"stweaver/compiler"
	"stweaver/ir"
	"stweaver/lang"
	"stweaver/profile"
)

// Exit codes. They are part of the interface: batch systems act on them.
const (
	exitOK          = 0
	exitInternal    = 1   // a bug of ours, or the system failed us
	exitUsage       = 2   // the command line is wrong
	exitUnreadable  = 3   // an input cannot be read, or not be planned from
	exitCheck       = 4   // a check failed: a plan that does not fit its profile, a replay that collided
	exitInfeasible  = 5   // the constraints cannot be met
	exitInterrupted = 130 // by a signal
)

// usageError is a mistake on the command line.
type usageError struct{ msg string }

func (e *usageError) Error() string { return e.msg }

func usagef(format string, args ...any) error { return &usageError{fmt.Sprintf(format, args...)} }

// checkError says that a check failed; its report has been printed.
type checkError struct{ msg string }

func (e *checkError) Error() string { return e.msg }

// inputError says that an input is not what it has to be.
type inputError struct{ error }

// app is what every command shares.
type app struct {
	stdin          io.Reader
	stdout, stderr io.Writer
	json           bool
	device         int
	interrupts     *interrupts
	stdinTaken     bool // one argument has named standard input
}

// commands is the literal table of the tool; those of a build with cgo follow it.
var commands = []func(*app) *cobra.Command{
	statsCommand,
	checkCommand,
	compileCommand,
	verifyCommand,
	simulateCommand,
	rulesCommand,
	dumpCommand,
	versionCommand,
}

// run is the whole program: streams in, exit code out.
func run(args []string, stdin io.Reader, stdout, stderr io.Writer) (code int) {
	out := &output{Writer: stdout}
	a := &app{stdin: stdin, stdout: out, stderr: stderr, interrupts: &interrupts{}}
	defer func() {
		if r := recover(); r != nil {
			fmt.Fprintf(stderr, "stweaver: %v\nThis is a bug in stweaver: nothing was written. Please report it with the command line.\n", r)
			code = exitInternal
		}
	}()
	ctx, stop := context.WithCancel(context.Background())
	defer stop()
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM)
	defer signal.Stop(signals)
	done := make(chan struct{})
	defer close(done)
	go a.obey(signals, stop, done)
	root := a.root()
	root.SetArgs(args)
	err := root.ExecuteContext(ctx)
	if err == nil {
		err = out.err
	}
	if err == nil {
		return exitOK
	}
	if ctx.Err() != nil {
		err = ctx.Err()
	}
	code = exitCode(err)
	if errors.Is(err, context.Canceled) {
		err = errors.New("interrupted")
	}
	fmt.Fprintf(stderr, "stweaver: %v\n", err)
	if code == exitUsage {
		fmt.Fprintln(stderr, "Run \"stweaver help\" for the commands, \"stweaver help COMMAND\" for one of them.")
	}
	return code
}

// obey ends a command by a signal. A search is ended first, and the command goes on with the best it
// has; a second signal, or one at any other time, ends the command, and the process too if the command
// does not return by itself: it may be waiting for input.
func (a *app) obey(signals <-chan os.Signal, cancel context.CancelFunc, done <-chan struct{}) {
	for ended := false; !ended; {
		select {
		case <-done:
			return
		case <-signals:
			if ended = !a.interrupts.endSearch(); !ended {
				fmt.Fprintln(a.stderr, "stweaver: the search ends; the best layout so far is verified and kept (once more: abort)")
			}
		}
	}
	cancel()
	select {
	case <-done:
	case <-time.After(time.Second):
		fmt.Fprintln(a.stderr, "stweaver: interrupted")
		os.Exit(exitInterrupted)
	}
}

func exitCode(err error) int {
	var usage *usageError
	var check *checkError
	var read *profile.Error
	var plan *ir.PlanError
	var steps *compiler.StepsError
	var infeasible *compiler.InfeasibleError
	var unmet *compiler.ExpectError
	var rules *lang.Error
	var path *os.PathError
	var input *inputError
	switch {
	case errors.Is(err, context.Canceled), errors.Is(err, errInterrupted):
		return exitInterrupted
	case errors.As(err, &usage), strings.HasPrefix(err.Error(), "unknown command"):
		return exitUsage
	case errors.As(err, &check):
		return exitCheck
	case errors.As(err, &infeasible), errors.As(err, &unmet):
		return exitInfeasible
	case errors.As(err, &read), errors.As(err, &plan), errors.As(err, &steps), errors.As(err, &path), errors.As(err, &rules), errors.As(err, &input):
		return exitUnreadable
	}
	return exitInternal
}

func (a *app) root() *cobra.Command {
	root := &cobra.Command{
		Use:   "stweaver",
		Short: "Plan GPU memory for training runs",
		Long: `stweaver reads an allocation profile of a training run, plans where every tensor
goes, proves the plan, and replays it through the runtime that training would use.

  stweaver compile snapshot.pickle -o run.plan     plan a recorded run
  stweaver replay run.plan snapshot.pickle         execute the plan on the recording

Profiles: recordings of STWeaver's own recorder, torch memory snapshots, profiler traces with
memory events, allocation logs, interval lists; plain, gzip or zstd. "-" is standard input or output.`,
		SilenceErrors: true, SilenceUsage: true,
		CompletionOptions: cobra.CompletionOptions{DisableDefaultCmd: false},
	}
	root.SetIn(a.stdin)
	root.SetOut(a.stdout)
	root.SetErr(a.stderr)
	root.PersistentFlags().BoolVar(&a.json, "json", false, "print one JSON object")
	root.PersistentFlags().IntVar(&a.device, "device", -1, "device `ordinal` to take from a profile of several; -1: the busiest")
	root.PersistentPreRunE = func(*cobra.Command, []string) error {
		if a.device < -1 {
			return usagef("--device %d: want an ordinal, or -1 for the busiest", a.device)
		}
		return nil
	}
	root.SetFlagErrorFunc(func(_ *cobra.Command, err error) error { return usagef("%v", err) })
	for _, c := range append(commands, cgoCommands...) {
		root.AddCommand(c(a))
	}
	return root
}

// args refuses a wrong number of arguments as a usage error.
func args(n int, names string) cobra.PositionalArgs {
	return func(cmd *cobra.Command, got []string) error {
		if len(got) != n {
			return usagef("%s takes %s, got %d arguments", cmd.Name(), names, len(got))
		}
		return nil
	}
}

// printJSON writes v as one indented object.
func (a *app) printJSON(v any) error {
	e := json.NewEncoder(a.stdout)
	e.SetIndent("", "  ")
	return e.Encode(v)
}

// read reads a profile, with progress on a terminal.
func (a *app) read(path string) (*ir.Trace, error) { return a.readWith(path, profile.Options{}) }

// readWith is read with options beside device and progress.
func (a *app) readWith(path string, o profile.Options) (*ir.Trace, error) {
	p := a.progress("reading " + path)
	defer p.close()
	o.Device = a.device
	o.Progress = func(done, total int64) { p.set(done, total, "") }
	if path == "-" {
		in, err := a.standardInput()
		if err != nil {
			return nil, err
		}
		return profile.Read("standard input", in, o)
	}
	return profile.ReadFile(path, o)
}

// readPlan reads a plan file whole.
func (a *app) readPlan(path string) (*ir.Plan, []byte, error) {
	data, err := a.readInput(path)
	if err != nil {
		return nil, nil, err
	}
	p, err := ir.DecodePlan(data)
	if err != nil {
		return nil, nil, fmt.Errorf("%s: %w", path, err)
	}
	return p, data, nil
}

// writeFile writes data to path so that path never holds half of it: to a temporary file
// in the same folder, then renamed. "-" is standard output.
func (a *app) writeFile(path string, data []byte) error {
	if path == "-" {
		if isTerminal(a.stdout) {
			return usagef("a plan is binary: give -o a file, or redirect standard output")
		}
		_, err := a.stdout.Write(data)
		return err
	}
	return writeAtomic(path, data)
}
