package sat

import (
	"fmt"
	"slices"
)

// maxBits is the largest number of buffers whose conflicts are also kept as a bit matrix
// (2 MiB at that size).
const maxBits = 4096

// graph is an instance as adjacency: what the reductions work on.
type graph struct {
	size  []int64
	fixed []int64 // -1 where free
	adj   [][]int32
	words int
	bits  []uint64 // row i at [i*words, (i+1)*words); nil above maxBits
}

// newGraph checks the conflicts and builds the graph. Buffers without size lose their
// conflicts: they occupy nothing.
func newGraph(in Instance) *graph {
	n := len(in.Sizes)
	if in.Fixed != nil && len(in.Fixed) != n {
		panic(fmt.Sprintf("BUG: sat: %d sizes, %d fixed offsets", n, len(in.Fixed)))
	}
	g := &graph{size: in.Sizes, fixed: in.Fixed, adj: make([][]int32, n)}
	if g.fixed == nil {
		g.fixed = slices.Repeat([]int64{-1}, n)
	}
	degree := make([]int, n)
	for k, c := range in.Conflicts {
		if c[0] < 0 || c[0] >= c[1] || int(c[1]) >= n || k > 0 && slices.Compare(in.Conflicts[k-1][:], c[:]) >= 0 {
			panic(fmt.Sprintf("BUG: sat: conflict %d of %d buffers is %v: want sorted pairs i < j", k, n, c))
		}
		degree[c[0]]++
		degree[c[1]]++
	}
	flat := make([]int32, 2*len(in.Conflicts))
	for i, d := range degree {
		g.adj[i], flat = flat[:0:d], flat[d:]
	}
	// Sorted pairs give each list its smaller neighbours, ascending, before its larger ones.
	for _, c := range in.Conflicts {
		if i, j := c[0], c[1]; g.size[i] > 0 && g.size[j] > 0 {
			g.adj[i] = append(g.adj[i], j)
			g.adj[j] = append(g.adj[j], i)
		}
	}
	for i := range g.adj {
		slices.Sort(g.adj[i])
	}
	if n <= maxBits {
		g.words = (n + 63) / 64
		g.bits = make([]uint64, n*g.words)
		for i, a := range g.adj {
			for _, j := range a {
				g.bits[i*g.words+int(j)/64] |= 1 << (j % 64)
			}
		}
	}
	return g
}

// row is i's neighbourhood as bits.
func (g *graph) row(i int32) []uint64 { return g.bits[int(i)*g.words : (int(i)+1)*g.words] }

// Check reports the first thing wrong with offsets as a layout of in at most capacity high, or nil.
// It reads the instance alone and compares pair by pair.
func Check(in Instance, capacity int64, offsets []int64) error {
	if len(offsets) != len(in.Sizes) {
		return fmt.Errorf("sat: %d offsets for %d buffers", len(offsets), len(in.Sizes))
	}
	for i, o := range offsets {
		switch {
		case o < 0:
			return fmt.Errorf("sat: buffer %d has offset %d", i, o)
		case in.Sizes[i] > 0 && (in.Sizes[i] > capacity || o > capacity-in.Sizes[i]):
			return fmt.Errorf("sat: buffer %d [%d,+%d) ends above %d", i, o, in.Sizes[i], capacity)
		case in.Fixed != nil && in.Fixed[i] >= 0 && o != in.Fixed[i]:
			return fmt.Errorf("sat: buffer %d is at %d, fixed at %d", i, o, in.Fixed[i])
		}
	}
	for _, c := range in.Conflicts {
		i, j := c[0], c[1]
		if in.Sizes[i] > 0 && in.Sizes[j] > 0 && offsets[i] < offsets[j]+in.Sizes[j] && offsets[j] < offsets[i]+in.Sizes[i] {
			return fmt.Errorf("sat: buffers %d [%d,+%d) and %d [%d,+%d) overlap", i, offsets[i], in.Sizes[i], j, offsets[j], in.Sizes[j])
		}
	}
	return nil
}

func gcd(a, b int64) int64 {
	for b != 0 {
		a, b = b, a%b
	}
	return a
}
