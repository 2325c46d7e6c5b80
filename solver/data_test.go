package solver

import (
	"os"
	"path/filepath"
	"testing"

	"stweaver/internal/testkit"
	"stweaver/ir"
)

// dataDir is the folder of real inputs, which is not part of the repository.
const dataDir = "../../shared/data"

// readCSV reads a file of dataDir/intervals; the test is skipped where it is absent.
func readCSV(t testing.TB, name string) ([]ir.Buffer, ir.Tick) {
	t.Helper()
	file := filepath.Join(dataDir, "intervals", name)
	if _, err := os.Stat(file); err != nil {
		t.Skipf("no %s", file)
	}
	return testkit.ReadIntervals(t, file)
}
