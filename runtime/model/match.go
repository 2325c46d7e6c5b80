package model

import "math"

// The matcher says which entry of the plan a request is. It holds hypotheses "the entry
// expected next is p", each with a score h <= 0 in thousandths; the best has 0. In step with
// the plan there is one hypothesis and its entry scores well: the answer is that entry, and
// the hypothesis moves on. Otherwise one column of an alignment with affine gaps is computed
// along the path q[0], q[1], … that starts at the first hypothesis:
//
//	                 q[0]    q[1]    q[2]    q[3]    q[4]
//	before the       stay0           stay2                    expected next, so far
//	request                --skip------------>
//	                                       \  match: this request is q[3]
//	after it         extra0          extra2        `> q[4]    expected next, now
//
// A request that is not in the plan leaves a hypothesis where it is (extra). Entries that are
// not requested this time are skipped: opening a gap is dear, going on is cheap, dearer over
// entries that are in every iteration (gapM) than over optional ones (gapO).
//
//	sync ---- mean of good ones below 0.6 ---> lost --- the next request, if no ---> search
//	  ^                                        ^       search lately             | |
//	  |                                        `------- 16 columns, none --------' |
//	  `---- a mark, or four good matches in a row that lead to the best -----------'
//
// Once a column has run, hypotheses that are wrong but not hopeless are renewed by every column.
// Four steady columns in a row, good matches from the best hypothesis without a gap, end that.
//
// The prologue comes once, and what comes beside it may be there to stay. After anything unexpected there the matcher
// is in doubt, and nothing is taken for an entry that dies, until two columns have confirmed the position.
//
// The rule in full is runtime/MATCHER.md.

// Prices and limits, in thousandths, positions or requests.
const (
	none = -(1 << 60) // no score; sums that start from it stay below none/2

	equalLarge      = 4000
	equalSmall      = 1500
	commonBytes     = 4096 // up to it sizes are common: an equal one says little, and none is the anchor
	anchorWithin    = 64   // entries from the loop's start that may be the anchor
	proportionLarge = 3000
	proportionSmall = 1000
	otherSize       = -2000
	otherFar        = -2500 // sizes more than 4 times apart
	inRange         = 1500
	nearRange       = 1000
	outOfRange      = 200
	freesFit        = 1000
	voteFor         = 3000
	voteAgainst     = -1500
	maxVotes        = 3
	freesMisfit     = -1500
	fastScore       = 1000
	openOptional    = 3000
	openMust        = 8000
	skipOptional    = 4
	skipMust        = 200
	extraPrice      = 1500
	dropBelow       = 14000
	keepBehind      = 64
	lookAhead       = 700
	hitMean         = 1000000
	lostMean        = 600000
	apartAtLeast    = 64
	steadyEnough    = 4
	doubtful        = 2
	searchColumn    = 16
	searchStreak    = 4
)

type mode uint8

const (
	inSync mode = iota
	lost
	searching
)

type hypothesis struct {
	pos int
	h   int64
}

// reach says how a new score came about: by a match of the position at path index from,
// after skipping some where gap is set, or with from < 0 because the request was an extra one.
// own is the matched entry's score for the request, without what led there.
type reach struct {
	from int
	gap  bool
	own  int64
}

// vouches is the least own score with which a match says that the position is right: a request of
// another size in its place, with the frees it should have.
const vouches = -1000

type matcher struct {
	plan    *Plan
	n, loop int          // entries; where the last one's successor is
	hyps    []hypothesis // in path order; kept as they were while not in sync
	mode    mode
	mean    int64  // moving average of good matches, hitMean when all are
	asked   uint64 // requests of the allocator, this one counted
	fixed   uint64 // of those, the ones that were not dynamic
	began   uint64 // asked when the last search began; 0: none has
	steady  int    // steady columns in a row
	doubt   int    // columns of the prologue in a row that it still takes until one is believed
	columns int    // of this search
	streak  int    // of its columns whose best was a match
	nf      int    // successful frees since the last request, at most 3
	anchor  int    // the loop's first entry that is easy to tell, -1 for none
	inner   int    // live requests of loop entries that die within their iteration
	last    int    // the last entry of the loop that a request with an address was answered with, -1: none so far
	copies  int    // the loop is so many times the same
	votes   []int  // positions that those frees name, the last maxVotes of them

	stretches []stretch // of the prologue and of the loop's first copy
	trail     trail     // where it may have gone where one of those ends
	factors   factors   // of sizes that were not the plan's

	stay []int64 // score before the request, by path index; kept between columns of a search
	next []int64 // … and after it
	how  []reach
	path []int // positions of the column

	phases map[uint64]map[int]bool // positions of each phase's marks, by hashed name

	slow, resyncs, restarts uint64
}

func newMatcher(p *Plan) *matcher {
	m := &matcher{plan: p, n: len(p.Entries), mean: hitMean}
	if int(p.LoopStart) < m.n {
		m.loop = int(p.LoopStart)
	}
	m.hyps = []hypothesis{{0, 0}}
	m.anchor = m.findAnchor()
	m.last, m.copies = -1, m.findCopies()
	if m.n > 0 {
		m.findStretches(0, m.loop)
		m.findStretches(m.loop, m.loop+(m.n-m.loop)/m.copies)
	}
	m.phases = make(map[uint64]map[int]bool)
	for _, k := range p.Marks {
		if k.Kind == MarkPhase {
			if m.phases[k.Name] == nil {
				m.phases[k.Name] = make(map[int]bool)
			}
			m.phases[k.Name][m.place(int(k.Entry))] = true
		}
	}
	return m
}

func (m *matcher) succ(pos int) int {
	if pos == m.n-1 {
		return m.loop
	}
	return pos + 1
}

// best returns the position of the best hypothesis, and its place among them.
func (m *matcher) best() (pos, at int) {
	for i, h := range m.hyps {
		if h.h == 0 {
			return h.pos, i
		}
	}
	panic("BUG: model: no hypothesis has score 0")
}

func (m *matcher) settle(pos int) {
	m.hyps = append(m.hyps[:0], hypothesis{pos, 0})
	m.mode = inSync
	m.mean = hitMean
	m.steady = 0
	m.doubt = 0
}

// lasts reports whether the request of entry pos lives for the whole run.
func (m *matcher) lasts(pos int) bool {
	return pos+int(m.plan.Entries[pos].Life) >= m.n
}

func (m *matcher) planned(pos int) bool {
	return m.plan.Slots[m.plan.Entries[pos].Slot].Flags&Planned != 0
}

// sized reports whether entry pos has a place for requests of just z bytes, or for sizes of which z is one.
func (m *matcher) sized(pos int, z int64) bool {
	lo, hi := m.plan.Slots[m.plan.Entries[pos].Slot].sizes()
	return m.planned(pos) && lo <= z && z <= hi
}

// score rates entry pos for a request of z rounded bytes of a plan stream; false where the
// stream is another one.
func (m *matcher) score(pos int, z int64, stream int) (int64, bool) {
	e := m.plan.Entries[pos]
	s := m.plan.Slots[e.Slot]
	if int(s.Stream) != stream {
		return 0, false
	}
	var score int64
	lo, hi := s.sizes()
	switch {
	case s.Flags&Planned != 0 && z == hi && z > commonBytes:
		score = equalLarge
	case s.Flags&Planned != 0 && z == hi:
		score = equalSmall
	case s.fixed() && pos >= m.loop && m.factors.expects(uint64(z/Unit), uint64(s.Hi), m.fixed):
		if hi > commonBytes {
			score = proportionLarge
		} else {
			score = proportionSmall
		}
	case s.fixed() && max(z, hi) > 4*min(z, hi):
		score = otherFar
	case s.fixed():
		score = otherSize
	case lo <= z && z <= hi:
		score = inRange
	case 3*z >= lo && z <= 3*hi:
		score = nearRange
	default:
		score = outOfRange
	}
	for _, v := range m.votes {
		if v == pos {
			score += voteFor
		} else {
			score += voteAgainst
		}
	}
	if int(e.NfMin) <= m.nf && m.nf <= int(e.NfMax) {
		return score + freesFit, true
	}
	return score + freesMisfit, true
}

// request answers which entry a request of z rounded bytes of a plan stream is, -1 for none.
func (m *matcher) request(z int64, stream int) int {
	if m.n == 0 {
		return -1
	}
	entry := m.step(z, stream)
	m.nf, m.votes = 0, m.votes[:0]
	if entry < 0 {
		m.factors = factors{} // something else is being done
	}
	return entry
}

// vote returns the position that the free of entry pos's request names: that before which
// it usually comes; -1 if its life varies.
func (m *matcher) vote(pos int) int {
	e := m.plan.Entries[pos]
	if !e.Firm {
		return -1
	}
	at := pos + int(e.Life)
	for at >= m.n {
		at -= m.n - m.loop
	}
	return at
}

// ahead is the distance from the best hypothesis to pos along the path of successors.
func (m *matcher) ahead(pos int) int {
	here, _ := m.best()
	switch {
	case pos >= here:
		return pos - here
	case pos >= m.loop:
		return m.n - here + pos - m.loop
	}
	return math.MaxInt
}

// freed takes note of a successful free and its vote, -1 for none.
func (m *matcher) freed(vote int) {
	m.nf = min(m.nf+1, 3)
	if vote >= 0 && m.mode == inSync && m.ahead(vote) > lookAhead {
		return // of the past: late, and says nothing
	}
	if vote >= 0 {
		m.votes = append(m.votes, vote)
		m.votes = m.votes[max(0, len(m.votes)-maxVotes):]
	}
}

func (m *matcher) step(z int64, stream int) int {
	if m.mode == inSync {
		expected := false
		if pos := m.hyps[0].pos; len(m.hyps) == 1 && m.doubt == 0 {
			s, ok := m.score(pos, z, stream)
			expected = ok && s > fastScore
			if expected && (!m.planned(pos) || m.sized(pos, z)) {
				return m.goOn(pos)
			}
		}
		if m.anew(z, stream) {
			return m.begin()
		}
		if to := m.repeats(z, stream); to >= 0 {
			m.jump(to)
			return m.goOn(to)
		}
		if expected {
			return m.goOn(m.hyps[0].pos)
		}
		m.slow++
		if len(m.hyps) == 1 {
			if h, ok := m.lookAlike(m.hyps[0].pos); ok {
				m.hyps = append(m.hyps, h)
			}
		}
		return m.align(z, stream)
	}
	if m.anew(z, stream) {
		return m.begin()
	}
	if m.mode == lost {
		if m.began != 0 && m.asked-m.began < uint64(max(apartAtLeast, m.n/16)) {
			return -1
		}
		m.beginSearch()
	}
	m.slow++
	return m.search(z, stream)
}

// goOn answers with what was expected.
func (m *matcher) goOn(pos int) int {
	m.hyps[0].pos = m.succ(pos)
	m.mean += (hitMean - m.mean) / 64
	return pos
}

// align is the slow path in sync: one column along the path from the first hypothesis.
func (m *matcher) align(z int64, stream int) int {
	was, _ := m.best()
	fold := m.layPath()
	k := len(m.path)
	m.column(z, stream, fold)
	best := firstLargest(m.next)
	top := m.next[best]
	m.hyps = m.hyps[:0]
	for i := max(0, best-keepBehind); i < len(m.next) && i <= best+lookAhead; i++ {
		h := m.next[i]
		if h < none/2 || h < top-dropBelow {
			continue
		}
		pos := m.succ(m.path[k-1]) // a path cut by its length goes on by one
		if i < k {
			pos = m.path[i]
		}
		m.hyps = append(m.hyps, hypothesis{pos, h - top})
	}
	entry, good, how := -1, int64(0), m.how[best]
	if how.from >= 0 {
		entry = m.path[how.from]
		if how.own >= vouches {
			good = hitMean
		}
	}
	if how.gap {
		m.resyncs++
	}
	if entry == was && !how.gap && how.own > fastScore {
		m.steady++
	} else {
		m.steady = 0
	}
	pos, _ := m.best()
	switch {
	case pos >= m.loop:
		m.doubt = 0
	case entry != was || how.gap || how.own < 0:
		m.doubt = doubtful
	case m.doubt > 0:
		m.doubt--
	}
	if m.steady == steadyEnough {
		m.hyps = append(m.hyps[:0], hypothesis{pos, 0})
		m.steady = 0
	}
	m.mean += (good - m.mean) / 64
	if m.mean < lostMean {
		m.mode = lost
	}
	return entry
}
