package ir

// LivePeak is the largest sum of buffer sizes alive at one plan tick, heads included: no
// layout of p can be smaller. It returns the peak in bytes and the first tick that has it.
func (p *Problem) LivePeak() (Bytes, Tick) { return p.livePeak(nil) }

// StreamPeaks is LivePeak for the buffers of each stream alone, in bytes. Where streams
// share no memory, their sum is what no layout can be smaller than.
func (p *Problem) StreamPeaks() []Bytes {
	peaks := make([]Bytes, len(p.Streams))
	for s := range p.Streams {
		id := StreamID(s)
		peaks[s], _ = p.livePeak(func(b *Buffer) bool { return b.Stream == id })
	}
	return peaks
}

func (p *Problem) livePeak(keep func(*Buffer) bool) (Bytes, Tick) {
	delta := make([]Bytes, p.L1+1)
	for i := range p.Buffers {
		b := &p.Buffers[i]
		if keep != nil && !keep(b) {
			continue
		}
		delta[b.Start] += b.Size
		delta[b.End] -= b.Size
		if b.HasHead() {
			delta[b.HeadStart] += b.Size
			delta[b.HeadEnd] -= b.Size
		}
	}
	var live, peak Bytes
	at := Tick(0)
	for k, d := range delta {
		live += d
		if live > peak {
			peak, at = live, Tick(k)
		}
	}
	return peak, at
}
