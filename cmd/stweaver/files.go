package main

import (
	"errors"
	"io"
	"os"
	"path/filepath"
	"syscall"

	"stweaver/lang"
)

// writeAtomic replaces the file at path by data, or leaves it as it was. What is no file (a device, a pipe) is written
// to, and a link stays one.
func writeAtomic(path string, data []byte) error {
	if target, err := filepath.EvalSymlinks(path); err == nil {
		path = target
	}
	mode := os.FileMode(0o644)
	switch info, err := os.Stat(path); {
	case err != nil: // nothing is there yet
	case info.IsDir():
		return &os.PathError{Op: "write", Path: path, Err: syscall.EISDIR}
	case info.Mode().IsRegular():
		mode = info.Mode().Perm()
	default:
		return os.WriteFile(path, data, mode)
	}
	err := replace(path, data, mode)
	var open *os.PathError
	if errors.As(err, &open) {
		open.Path = path // the name of the temporary file tells nobody anything
	}
	return err
}

func replace(path string, data []byte, mode os.FileMode) (err error) {
	f, err := os.CreateTemp(filepath.Dir(path), "."+filepath.Base(path)+".*")
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			os.Remove(f.Name())
		}
	}()
	if _, err = f.Write(data); err == nil {
		err = f.Chmod(mode)
	}
	if cerr := f.Close(); err == nil {
		err = cerr
	}
	if err != nil {
		return err
	}
	return os.Rename(f.Name(), path)
}

// standardInput is standard input, for the one argument that may name it.
func (a *app) standardInput() (io.Reader, error) {
	if a.stdinTaken {
		return nil, usagef("-: standard input can be one input only; give the others as files")
	}
	a.stdinTaken = true
	return a.stdin, nil
}

// readInput reads a file, or standard input where path is -, whole.
func (a *app) readInput(path string) ([]byte, error) {
	if path != "-" {
		return os.ReadFile(path)
	}
	in, err := a.standardInput()
	if err != nil {
		return nil, err
	}
	return io.ReadAll(in)
}

// openRules opens a rules file, or standard input where path is -.
func (a *app) openRules(path string) (io.ReadCloser, error) {
	if path != "-" {
		return lang.OpenFile(path)
	}
	in, err := a.standardInput()
	return io.NopCloser(in), err
}

// output is standard output. It keeps the first error: a report that nobody can read did not succeed.
type output struct {
	io.Writer
	err error
}

func (o *output) Write(p []byte) (int, error) {
	n, err := o.Writer.Write(p)
	if o.err == nil {
		o.err = err
	}
	return n, err
}

func isTerminal(w io.Writer) bool {
	if o, ok := w.(*output); ok {
		w = o.Writer
	}
	f, ok := w.(*os.File)
	if !ok {
		return false
	}
	info, err := f.Stat()
	if err != nil || info.Mode()&os.ModeCharDevice == 0 || os.Getenv("TERM") == "dumb" {
		return false
	}
	null, err := os.Stat(os.DevNull)
	return err != nil || !os.SameFile(info, null)
}
