package main

import (
	"fmt"
	"text/tabwriter"

	"stweaver/compiler"
	"stweaver/ir"
)

// table prints "name  value" rows on standard output.
type table struct{ w *tabwriter.Writer }

func (a *app) table() *table { return &table{tabwriter.NewWriter(a.stdout, 0, 0, 2, ' ', 0)} }

func (t *table) row(name, value string) { fmt.Fprintf(t.w, "%s\t%s\n", name, value) }
func (t *table) flush()                 { t.w.Flush() }

// bytesText prints a size for people and for copying.
func bytesText(n ir.Bytes) string {
	if n < 1024 {
		return compiler.Size(n)
	}
	return fmt.Sprintf("%s (%d)", compiler.Size(n), n)
}

// percent prints a rate in 0…1; gaps below a hundredth of a percent keep their digits.
func percent(x float64) string {
	if x != 0 && x < 0.0001 && x > -0.0001 {
		return fmt.Sprintf("%.5f %%", 100*x)
	}
	return fmt.Sprintf("%.2f %%", 100*x)
}
