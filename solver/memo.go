package solver

import "math/bits"

// The memory of failed states.
//
// What a subtree can still do depends on the unplaced buffers of its part, the lowest place
// of each, and the last (offset, rank) of the branch; not on how the placed ones lie. Other
// arrangements of the placed lead to the same state again and again, in parts that split off
// most of all. So a subtree searched to its end without success is remembered, and a state
// like it with a last point at least as high fails at once.
//
// Soundness. Of all layouts under the capacity take one, L, with the least sum of offsets
// (twins in order of number). The rules never cut its branch: nothing of it could be moved
// down (canonical order, dominance), and what nothing above meets already lies where its
// turn would have put it (hatless). Suppose a node on the branch of L is cut since an earlier
// node with the same state had failed. The unplaced of L fit into the earlier node as well,
// since its lowest places are the same, in the same order, since its last point is no higher.
// What cuts them there is a rule or an older memory. A rule looks only at the unplaced and
// their lowest places, and would cut L too, which it does not; and the chain of older
// memories ends.
//
// Ranks are made anew where parts split, from the unplaced of the part alone. So the ranks
// belong to the set they were made for: its hash is in the key. Where they are fresh the last
// rank is -1 and the order does not matter at all, so the key then holds none.
//
// A key has 128 bits, sums of one hash for each unplaced buffer, so placing one changes it
// in time proportional to what changes.

type key struct{ a, b uint64 }

func mix(z uint64) uint64 {
	z = (z ^ z>>30) * 0xbf58476d1ce4e5b9
	z = (z ^ z>>27) * 0x94d049bb133111eb
	return z ^ z>>31
}

// hashed is the key of one unplaced item.
func hashed(i int32, low int64) key {
	h := mix(uint64(i)<<40 ^ uint64(low) + 0x9e3779b97f4a7c15)
	hi, lo := bits.Mul64(h^0xd6e8feb86659fd93, 0xa0761d6478bd642f+2*uint64(i))
	return key{h, hi ^ bits.RotateLeft64(lo, 29)}
}

func (k *key) join(i int32, low int64) {
	h := hashed(i, low)
	k.a += h.a
	k.b += h.b
}

func (k *key) drop(i int32, low int64) {
	h := hashed(i, low)
	k.a -= h.a
	k.b -= h.b
}

// with is k within the ranks of an epoch.
func (k key) with(epoch uint64) key { return key{k.a ^ epoch, k.b + mix(epoch)} }

type failed struct {
	key  key
	off  int64 // the last point of the branch
	rank int32
	cost uint32 // nodes it took to find out
}

// ways is how many places a state can be remembered at.
const ways = 4

// The table grows with what is noted, from least to most entries; full, it keeps what was
// dearest to find out.
const (
	leastFailed = 1 << 8
	mostFailed  = 1 << 18
)

type memory struct {
	slots []failed
	mask  uint64
	noted int // since the last growth
}

func newMemory() *memory { return &memory{make([]failed, leastFailed), leastFailed - 1, 0} }

// grow makes the table four times as large.
func (m *memory) grow() {
	old := m.slots
	m.slots = make([]failed, 4*len(old))
	m.mask = uint64(len(m.slots) - 1)
	m.noted = 0
	for _, f := range old {
		if f.cost > 0 {
			m.note(f.key, f.off, f.rank, int64(f.cost))
		}
	}
}

func (m *memory) bucket(k key) []failed {
	at := k.a & m.mask &^ (ways - 1)
	return m.slots[at : at+ways]
}

// fails reports whether the state is known to fail.
func (m *memory) fails(k key, off int64, rank int32) bool {
	for _, f := range m.bucket(k) {
		if f.key == k && f.cost > 0 && (f.off < off || f.off == off && f.rank <= rank) {
			return true
		}
	}
	return false
}

// note remembers a failure, in the place of the cheapest.
func (m *memory) note(k key, off int64, rank int32, cost int64) {
	b := m.bucket(k)
	worst := 0
	for i := range b {
		if b[i].key == k && b[i].cost > 0 {
			if off < b[i].off || off == b[i].off && rank < b[i].rank {
				worst = i
				break
			}
			return
		}
		if b[i].cost < b[worst].cost {
			worst = i
		}
	}
	if m.noted++; m.noted > len(m.slots)/2 && len(m.slots) < mostFailed {
		m.grow()
		m.note(k, off, rank, cost)
		return
	}
	b[worst] = failed{k, off, rank, uint32(min(max(cost, 1), 1<<32-1))}
}
