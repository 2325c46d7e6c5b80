package model_test

import (
	"testing"

	"stweaver/runtime/model"
	"stweaver/runtime/model/plantest"
)

// A request with its free in the model: in step with the plan, and with one free in twenty late
// and one request in a hundred extra.
func BenchmarkModel(b *testing.B) {
	src := plantest.Seeded(2)
	c := plantest.New(src, plantest.Config{Entries: 4000, Streams: 1, Static: true})
	s := c.Script(src, 20, false)
	for _, spec := range []string{"", "late=5%,extra=1%"} {
		name := spec
		if name == "" {
			name = "in step"
		}
		b.Run(name, func(b *testing.B) {
			parsed, err := model.ParseSpec(spec)
			if err != nil {
				b.Fatal(err)
			}
			d, err := model.Diverge(s, parsed, 1)
			if err != nil {
				b.Fatal(err)
			}
			var st model.Stats
			for b.Loop() {
				st = newModel(b, c.Plan, model.Options{}).Run(d).Stats
			}
			pairs := float64(b.N) * float64(st.Requests)
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/pairs, "ns/pair")
			b.ReportMetric(float64(st.Hits)/float64(st.Requests), "hits/request")
			b.ReportMetric(float64(st.Slow)/float64(st.Requests), "slow/request")
		})
	}
}
