package main

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"stweaver/internal/testkit"
)

// An interrupted command exits with 130 and leaves nothing behind, even while it waits for
// input that does not come.
func TestInterrupt(t *testing.T) {
	dir := t.TempDir()
	bin := filepath.Join(dir, "stweaver")
	if out, err := exec.Command("go", "build", "-o", bin, ".").CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	cmd := exec.Command(bin, "compile", "-", "-o", filepath.Join(dir, "out.plan"))
	stdin, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	defer stdin.Close()
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	// More than a pipe holds: once this is written the command is reading, and its handler in place.
	if _, err := stdin.Write(bytes.Repeat([]byte("1 0x1000 512 0\n0 0x1000 512 0\n"), 1<<14)); err != nil {
		t.Fatal(err)
	}
	if err := cmd.Process.Signal(syscall.SIGINT); err != nil {
		t.Fatal(err)
	}
	err = cmd.Wait()
	var exit *exec.ExitError
	if !errors.As(err, &exit) || exit.ExitCode() != exitInterrupted {
		t.Fatalf("exit: %v, want code %d", err, exitInterrupted)
	}
	left, err := os.ReadDir(dir)
	if err != nil || len(left) != 1 {
		t.Errorf("left behind: %v %v", left, err)
	}
}

// A search that is interrupted ends, and its best layout becomes a plan that verifies; the exit
// code says that there might have been a better one.
func TestInterruptedSearch(t *testing.T) {
	dir := t.TempDir()
	bin := filepath.Join(dir, "stweaver")
	if out, err := exec.Command("go", "build", "-o", bin, ".").CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	// A packing that is tight everywhere, so that the search has work for minutes.
	buffers, _, _ := testkit.Rectangle(5, 2000, 1<<20, 4000)
	var csv bytes.Buffer
	fmt.Fprintln(&csv, "id,lower,upper,size")
	for i, b := range buffers {
		fmt.Fprintf(&csv, "%d,%d,%d,%d\n", i, b.Start, b.End, b.Size)
	}
	in, plan := filepath.Join(dir, "in.csv"), filepath.Join(dir, "out.plan")
	if err := os.WriteFile(in, csv.Bytes(), 0o600); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(bin, "compile", in, "-o", plan, "--effort", "max", "--dump", "lower")
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	// The dump comes right before the search.
	if _, err := stdout.Read(make([]byte, 1)); err != nil {
		t.Fatal(err)
	}
	if err := cmd.Process.Signal(syscall.SIGINT); err != nil {
		t.Fatal(err)
	}
	if _, err := io.Copy(io.Discard, stdout); err != nil {
		t.Fatal(err)
	}
	err = cmd.Wait()
	var exit *exec.ExitError
	if !errors.As(err, &exit) || exit.ExitCode() != exitInterrupted {
		t.Fatalf("exit: %v, want code %d\n%s", err, exitInterrupted, &stderr)
	}
	if !strings.Contains(stderr.String(), "the search was interrupted") {
		t.Errorf("standard error: %s", &stderr)
	}
	if out, err := exec.Command(bin, "verify", plan, in).CombinedOutput(); err != nil {
		t.Errorf("verify: %v\n%s", err, out)
	}
	if out, _ := exec.Command(bin, "dump", plan).Output(); !bytes.Contains(out, []byte(`info interrupted "true"`)) {
		t.Error("the plan does not say that its search was interrupted")
	}
}
