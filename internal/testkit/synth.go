package testkit

import (
	"bufio"
	"fmt"
	"io"
	"strconv"
)

// Synthetic recordings, as large as wanted and the same on every machine.
//
// Both recorders watch the same program: each step allocates layer after layer, some of it
// scratch that is freed at once, the rest freed in reverse on the way back. Weights come
// first and stay.
//
//	address
//	  ^  |############################# weights ############...
//	  |  |   |## layer 0 ################|
//	  |  |   |x|  |## layer 1 ######|
//	  |  |   |    |x|  |## layer 2 |          x: scratch
//	  +------------------------------------------> event

// SnapshotSpec describes a synthetic torch memory snapshot.
type SnapshotSpec struct {
	Requests int // allocations; there are up to three events for each
	Depth    int // frames in each stack; 0: no stacks were recorded
	Layers   int // of the model; 0: 64
	Weights  int // tensors that stay; 0: 64
	Protocol int // of the pickle; 0: 4
}

// Synth tells what a synthetic recording holds.
type Synth struct {
	Bytes    int64 // of the file
	Events   int   // in the recording, of all kinds
	Requests int
	Live     int // requests that are never freed
	Steps    int // whole steps
}

// program plays the model above and calls alloc and free for its requests.
type program struct {
	layers, weights, requests int
	alloc                     func(id int, size int64)
	free                      func(id int, size int64)
	step                      func(n int) // before step n begins
}

// run plays until the requests are used up, and returns the number made, those that stay
// and the steps begun.
func (p *program) run() (made, live, steps int) {
	size := func(k int) int64 { return int64(512 * (1 + k*k%997)) }
	for ; made < p.weights && made < p.requests; made++ {
		p.alloc(made, size(made))
	}
	live = made
	const scratch = 2 // for each layer and direction
	stepLen := p.layers * (1 + 2*scratch)
	for ; made+stepLen <= p.requests; steps++ {
		p.step(steps)
		id := p.weights
		puff := func(l int) {
			for s := range scratch {
				p.alloc(id+s, size(l+s+7))
				p.free(id+s, size(l+s+7))
			}
			made += scratch
		}
		for l := range p.layers {
			p.alloc(id+scratch+l, size(l))
			made++
			puff(l)
		}
		for l := p.layers - 1; l >= 0; l-- {
			puff(l)
			p.free(id+scratch+l, size(l))
		}
	}
	return made, live, steps
}

// WriteSnapshot writes a snapshot as torch 2.11 dumps it: keys shared through the memo,
// one list of frames for an allocation and its free, frames shared by all.
func WriteSnapshot(w io.Writer, spec SnapshotSpec) (Synth, error) {
	out := bufio.NewWriterSize(w, 1<<20)
	p := NewPickler(out, orDefault(spec.Protocol, 4))
	s := &snapshotWriter{p: p, spec: spec, stacks: make(map[int]int), held: make(map[int]int64)}
	prog := &program{layers: orDefault(spec.Layers, 64), weights: orDefault(spec.Weights, 64), requests: spec.Requests}
	prog.alloc, prog.free, prog.step = s.alloc, s.free, func(n int) { s.label = "iter " + strconv.Itoa(n) }

	p.Op('}')
	p.Memoize()
	p.Op('(')
	p.Str("device_traces")
	p.Op(']')
	p.Memoize()
	p.Op(']')
	p.Memoize()
	p.Op('(')
	made, live, steps := prog.run()
	p.Op('e', 'a')
	p.Str("segments")
	p.Value(s.segments())
	p.Str("allocator_settings")
	p.Value((&Dict{}).Set("expandable_segments", false).Set("garbage_collection_threshold", 0.0).Set("max_split_size", -1))
	p.Str("external_annotations")
	p.Value(&List{})
	p.Op('u')
	n, err := p.Close()
	if err == nil {
		err = out.Flush()
	}
	return Synth{n, s.events, made, live, steps}, err
}

func orDefault(n, d int) int {
	if n == 0 {
		return d
	}
	return n
}

type snapshotWriter struct {
	p      *Pickler
	spec   SnapshotSpec
	events int
	frames []int         // memo numbers of frame dicts
	stacks map[int]int   // memo number of the stack of a live request
	held   map[int]int64 // segment size by request id
	live   []bool
	label  string
}

func (s *snapshotWriter) addr(id int) int64 { return 0x7f0000000000 + int64(id)<<21 }

func (s *snapshotWriter) alloc(id int, size int64) {
	if _, ok := s.held[id]; !ok {
		s.held[id] = 2 << 20
		s.event("segment_alloc", s.addr(id), 2<<20, -1)
	}
	for len(s.live) <= id {
		s.live = append(s.live, false)
	}
	s.live[id] = true
	s.stacks[id] = -1
	s.event("alloc", s.addr(id), size, id)
}

func (s *snapshotWriter) free(id int, size int64) {
	s.live[id] = false
	s.event("free_requested", s.addr(id), size, id)
	s.event("free_completed", s.addr(id), size, id)
}

// event writes one entry; id is the request whose stack it carries.
func (s *snapshotWriter) event(action string, addr, size int64, id int) {
	p := s.p
	p.Op('}')
	p.Memoize()
	p.Op('(')
	p.Str("action")
	p.Str(action)
	p.Str("addr")
	p.Int(addr)
	p.Str("size")
	p.Int(size)
	p.Str("stream")
	p.Int(0)
	p.Str("time_us")
	p.Int(1795964265284028 + int64(s.events)*3)
	p.Str("compile_context")
	p.FreshStr("N/A")
	p.Str("user_metadata")
	p.FreshStr(s.label)
	p.Str("pool_id")
	p.Op('K', 0, 'K', 0, 0x86)
	p.Memoize()
	if s.spec.Depth > 0 && id >= 0 {
		p.Str("frames")
		if n := s.stacks[id]; n >= 0 {
			p.Get(n)
		} else {
			s.stacks[id] = s.stack(id)
		}
	}
	p.Op('u')
	s.events++
	if s.events%batch == 0 {
		p.Op('e', '(')
	}
}

// stack writes a new list of frames, innermost first, and returns its memo number.
func (s *snapshotWriter) stack(id int) int {
	p := s.p
	p.Op(']')
	n := p.Memoize()
	p.Op('(')
	for d := range s.spec.Depth {
		k := (id*7 + d*d) % (40 * s.spec.Depth)
		if d >= s.spec.Depth/2 {
			k = d // the outer half is the same in every stack
		}
		for len(s.frames) <= k {
			s.frames = append(s.frames, -1)
		}
		if s.frames[k] >= 0 {
			p.Get(s.frames[k])
			continue
		}
		file := "site-packages/torch/nn/modules/module.py"
		if k%3 == 1 {
			file = fmt.Sprintf("src/model_%d.py", k%17)
		}
		frame := (&Dict{}).Set("name", fmt.Sprintf("forward_%d", k)).Set("filename", file).Set("line", k)
		p.Value(frame)
		s.frames[k] = p.shared[frame]
	}
	p.Op('e')
	return n
}

func (s *snapshotWriter) segments() *List {
	l := &List{}
	for id, live := range s.live {
		state := "inactive"
		if live {
			state = "active_allocated"
		}
		b := (&Dict{}).Set("address", s.addr(id)).Set("size", 2<<20).Set("state", state).Set("frames", &List{})
		l.Items = append(l.Items, (&Dict{}).Set("device", 0).Set("address", s.addr(id)).Set("total_size", 2<<20).
			Set("stream", 0).Set("segment_type", "small").Set("segment_pool_id", Tuple{0, 0}).Set("is_expandable", false).
			Set("frames", &List{}).Set("blocks", &List{Items: []any{b}}))
	}
	return l
}

// ChromeSpec describes a synthetic profiler trace.
type ChromeSpec struct {
	Requests int // allocations; two memory events for each
	Ops      int // operator events between two memory events; they make up the file
	Layers   int // 0: 64
	Weights  int // 0: 64
}

// WriteChrome writes a trace as kineto does: pretty-printed, microseconds with a fraction.
func WriteChrome(w io.Writer, spec ChromeSpec) (Synth, error) {
	out := bufio.NewWriterSize(w, 1<<20)
	c := &chromeWriter{w: out, ops: spec.Ops}
	c.printf("{\n  \"schemaVersion\": 1,\n  \"deviceProperties\": [{\"id\": 0, \"name\": \"synthetic\"}],\n  \"traceEvents\": [\n")
	prog := &program{layers: orDefault(spec.Layers, 64), weights: orDefault(spec.Weights, 64), requests: spec.Requests,
		alloc: func(id int, size int64) { c.memory(id, size) },
		free:  func(id int, size int64) { c.memory(id, -size) },
		step:  func(int) { c.endStep(); c.begun = c.now },
	}
	made, live, steps := prog.run()
	c.endStep()
	c.printf("  {\"name\": \"Record Window End\", \"ph\": \"i\", \"s\": \"g\", \"pid\": \"\", \"tid\": \"\", \"ts\": 1}\n  ],\n  \"traceName\": \"synthetic\"\n}\n")
	err := out.Flush()
	return Synth{c.n, c.events, made, live, steps}, err
}

type chromeWriter struct {
	w      *bufio.Writer
	ops    int
	now    int64 // nanoseconds
	begun  int64
	step   int
	total  int64
	events int
	n      int64
}

func (c *chromeWriter) printf(format string, args ...any) {
	n, _ := fmt.Fprintf(c.w, format, args...)
	c.n += int64(n)
}

const chromeEpoch = 1795964265284028

func (c *chromeWriter) ts() string {
	return fmt.Sprintf("%d.%03d", chromeEpoch+c.now/1000, c.now%1000)
}

func (c *chromeWriter) memory(id int, bytes int64) {
	for range c.ops {
		c.printf("  {\n    \"ph\": \"X\", \"cat\": \"cpu_op\", \"name\": \"aten::empty_strided\", \"pid\": 783658, \"tid\": 785244,\n"+
			"    \"ts\": %s, \"dur\": 0.411,\n    \"args\": {\n      \"External id\": %d, \"Record function id\": 0, \"Sequence number\": %d, \"Fwd thread id\": 1, \"Ev Idx\": %d,\n"+
			"      \"Concrete Inputs\": [\"[4096, 1024]\", \"[1024, 1]\", \"15\", \"\", \"\", \"\"], \"Input type\": [\"ScalarList\", \"ScalarList\", \"Scalar\", \"\", \"Scalar\", \"\"]\n    }\n  },\n",
			c.ts(), c.events, c.events, c.events)
		c.now += 97
	}
	c.total += bytes
	c.printf("  {\n    \"ph\": \"i\", \"cat\": \"cpu_instant_event\", \"s\": \"t\", \"name\": \"[memory]\",\n    \"pid\": 783658, \"tid\": 785244,\n    \"ts\": %s,\n"+
		"    \"args\": {\n      \"Total Reserved\": %d, \"Total Allocated\": %d, \"Bytes\": %d, \"Addr\": %d, \"Device Id\": 0, \"Device Type\": 1, \"Ev Idx\": %d\n    }\n  },\n",
		c.ts(), int64(64<<30), c.total, bytes, 0x7f0000000000+int64(id)<<21, c.events)
	c.now += 211
	c.events++
}

// endStep writes the span of the step that is over: spans follow what lies in them.
func (c *chromeWriter) endStep() {
	if c.begun > 0 {
		c.printf("  {\n    \"ph\": \"X\", \"cat\": \"user_annotation\", \"name\": \"ProfilerStep#%d\", \"pid\": 783658, \"tid\": 783658,\n    \"ts\": %d.%03d, \"dur\": %d.%03d,\n    \"args\": {}\n  },\n",
			c.step, chromeEpoch+c.begun/1000, c.begun%1000, (c.now-c.begun)/1000, (c.now-c.begun)%1000)
		c.step++
	}
}
