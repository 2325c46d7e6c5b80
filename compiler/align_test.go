package compiler

import (
	"slices"
	"testing"

	"pgregory.net/rapid"

	"stweaver/ir"
)

func drawUnits(t *rapid.T, name string, most int) []unit {
	n := rapid.IntRange(1, most).Draw(t, name)
	u := make([]unit, n)
	for i := range u {
		u[i] = unitOf(token{
			size:   ir.Bytes(512 << (4 * rapid.IntRange(0, 3).Draw(t, "size"))),
			stream: ir.StreamID(rapid.IntRange(0, 20).Draw(t, "stream") / 20),
			life:   uint8(rapid.IntRange(0, 2).Draw(t, "life")),
			nf:     uint8(rapid.IntRange(0, 1).Draw(t, "nf")),
		})
	}
	return u
}

// total is the score of an alignment: pairs and gaps, each maximal run of unpaired elements
// of one side being one gap.
func total(a, b []unit, pairs [][2]int) int {
	sum, i, j := 0, 0, 0
	gap := func(n int) {
		if n > 0 {
			sum -= gapOpen + (n-1)*gapExtend
		}
	}
	for _, p := range append(pairs, [2]int{len(a), len(b)}) {
		gap(p[0] - i)
		gap(p[1] - j)
		if p[0] < len(a) {
			sum += score(&a[p[0]], &b[p[1]])
		}
		i, j = p[0]+1, p[1]+1
	}
	return sum
}

// bestTotal is Gotoh's recurrence without a band, over the whole matrix.
func bestTotal(a, b []unit) int {
	n, m := len(a), len(b)
	grid := func() [][]int {
		g := make([][]int, n+1)
		for i := range g {
			g[i] = make([]int, m+1)
			for j := range g[i] {
				g[i][j] = none
			}
		}
		return g
	}
	best, up, left := grid(), grid(), grid()
	best[0][0] = 0
	for i := range n + 1 {
		for j := range m + 1 {
			if i > 0 {
				up[i][j] = max(best[i-1][j]-gapOpen, up[i-1][j]-gapExtend)
			}
			if j > 0 {
				left[i][j] = max(best[i][j-1]-gapOpen, left[i][j-1]-gapExtend)
			}
			if i > 0 && j > 0 {
				if s := score(&a[i-1], &b[j-1]); s != none {
					best[i][j] = best[i-1][j-1] + s
				}
			}
			best[i][j] = max(best[i][j], up[i][j], left[i][j])
		}
	}
	return best[n][m]
}

func gotohPairs(a, b []unit, half, limit int, all bool) (pairs [][2]int) {
	g := newGotoh(a, b, half, limit)
	g.all = all
	g.run(func(i, j int) { pairs = append([][2]int{{i, j}}, pairs...) })
	return pairs
}

// A band that holds everything is exact, and the blocks of rows change nothing.
func TestGotohIsOptimal(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		a, b := drawUnits(t, "a", 25), drawUnits(t, "b", 25)
		markStable(a, b)
		pairs := gotohPairs(a, b, 60, 1<<20, true)
		if got, want := total(a, b, pairs), bestTotal(a, b); got != want {
			t.Fatalf("score %d, best is %d: %v", got, want, pairs)
		}
		for _, limit := range []int{1, 50, 200} {
			again := gotohPairs(a, b, 60, limit, true)
			if len(again) != len(pairs) {
				t.Fatalf("trace of %d bytes: %v, want %v", limit, again, pairs)
			}
			for i := range pairs {
				if pairs[i] != again[i] {
					t.Fatalf("trace of %d bytes: %v, want %v", limit, again, pairs)
				}
			}
		}
	})
}

// Whatever the band, partners ascend, are of one stream and good enough.
func TestGotohNarrowBands(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		a, b := drawUnits(t, "a", 80), drawUnits(t, "b", 20)
		if rapid.Bool().Draw(t, "swap") {
			a, b = b, a
		}
		markStable(a, b)
		g := newGotoh(a, b, rapid.IntRange(1, 5).Draw(t, "half"), rapid.IntRange(1, 300).Draw(t, "limit"))
		g.steep = rapid.Bool().Draw(t, "steep")
		i, j := len(a), len(b)
		g.run(func(x, y int) {
			if x >= i || y >= j || score(&a[x], &b[y]) < pairWorst {
				t.Fatalf("pair %d %d after %d %d", x, y, i, j)
			}
			i, j = x, y
		})
	})
}

// A missing expert is one gap, though sizes that happen to be equal invite to scatter it.
func TestAlignRunIsOneGap(t *testing.T) {
	const experts, run = 5, 13
	x := uint32(1)
	expert := func() (u []unit) {
		for k := range run {
			x = x*1664525 + 1013904223
			u = append(u, unitOf(token{size: 5120 * ir.Bytes(1+x>>28), life: uint8(k * 5 % 7), nf: uint8(k % 3)}))
		}
		return u
	}
	for missing := range experts {
		var a, b []unit
		for e := range experts {
			a = append(a, expert()...)
			if e != missing {
				b = append(b, expert()...)
			}
		}
		jumps, prev := 0, -1
		for j, i := range align(a, b) {
			if i < 0 {
				t.Fatalf("expert %d missing: request %d has no partner", missing, j)
			}
			if i != prev+1 {
				jumps++
			}
			prev = i
		}
		if jumps > 1 {
			t.Errorf("expert %d missing: the gap is in %d pieces", missing, jumps)
		}
	}
}

// Three requests that both sides have once outweigh the price of two gaps.
func TestAlignStableSizes(t *testing.T) {
	row := func(sizes ...ir.Bytes) (u []unit) {
		for _, s := range sizes {
			u = append(u, unitOf(token{size: s * 512, life: 1}))
		}
		return u
	}
	got := align(row(21, 20, 24, 28), row(20, 24, 28, 27))
	if want := []int{1, 2, 3, -1}; !slices.Equal(got, want) {
		t.Errorf("stable sizes: partners %d, want %d", got, want)
	}
	got = align(row(21, 22, 23, 29), row(30, 31, 32, 33)) // nothing in common: by position
	if want := []int{0, 1, 2, 3}; !slices.Equal(got, want) {
		t.Errorf("varying sizes: partners %d, want %d", got, want)
	}
}

func TestAlignEdges(t *testing.T) {
	one := []unit{unitOf(token{size: 512})}
	other := []unit{unitOf(token{size: 512, stream: 1})}
	if got := align(nil, one); len(got) != 1 || got[0] != -1 {
		t.Error(got)
	}
	if got := align(one, nil); len(got) != 0 {
		t.Error(got)
	}
	if got := align(one, one); got[0] != 0 {
		t.Error(got)
	}
	if got := align(one, other); got[0] != -1 {
		t.Errorf("two streams met: %v", got)
	}
}

// Two iterations of 40,000 requests with nothing in common at the ends: the whole band.
func BenchmarkAlign40k(b *testing.B) {
	mk := func(n, seed int) []unit {
		u := make([]unit, n)
		x := uint32(seed)
		for i := range u {
			x = x*1664525 + 1013904223
			u[i] = unitOf(token{size: ir.Bytes(512 * (1 + x>>28)), life: uint8(x >> 20 & 7), nf: uint8(x >> 10 & 3)})
		}
		return u
	}
	x, y := mk(40_000, 1), mk(39_800, 2)
	b.ReportAllocs()
	for b.Loop() {
		align(x, y)
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/(40_000*1001), "ns/cell")
}
