// Command stweaver plans GPU memory for training runs: it reads an allocation profile,
// compiles it to a plan, and checks and replays plans.
package main

import (
	"os"
)

func main() {
	os.Exit(run(os.Args[1:], os.Stdin, os.Stdout, os.Stderr))
}
