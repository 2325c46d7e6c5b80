package profile

import (
	"math"
	"strconv"
	"strings"
)

// records is what a snapshot's pickle turns into while it is read: flat lists of small
// records instead of Python's dicts. The kind of a dict shows in its keys:
//
//	action … event      filename … frame     blocks … segment
//	state  … block      stage    … span      anything else: plain, kept as pairs
//
// A list of events is one run of record numbers; a list of frames is only the innermost
// frame that a user would recognise. All strings are interned.
type records struct {
	strs   []string
	strIDs map[string]uint32

	lists slab[list]
	items [][]value // of lists that hold anything but frames
	dicts slab[dict]

	pairs    [][2]uint64
	pairIDs  map[[2]uint64]uint32
	events   slab[event]
	frames   slab[frame]
	segments []segment
	blocks   slab[block]
	spans    []span
	plains   [][]value   // key, value, key, value, …
	stacks   *stackTable // nil where only the innermost frame is kept
}

type list struct {
	items int32  // index in records.items, -1 while empty
	site  uint32 // 1 + index in records.frames of the first user frame
	stack uint32 // in records.stacks, if there
}

type dict struct {
	idx   uint32
	shape shape
}

type shape uint8

const (
	shapeEmpty shape = iota // no keys yet
	shapePlain
	shapeEvent
	shapeFrame
	shapeSegment
	shapeBlock
	shapeSpan
)

// event is one entry of device_traces.
type event struct {
	addr, stream uint64
	size, time   int64 // noTime where the recorder wrote none
	site         uint32
	label        uint32 // user_metadata, a string
	pool         uint32 // 1 + index in records.pairs, 0 where absent
	act          uint32 // a string; actions are compared by number
	stack        uint32 // in records.stacks, if there
	has          fields
}

type fields uint8

const (
	hasAddr fields = 1 << iota
	hasSize
)

const noTime = math.MinInt64

type frame struct {
	file, name uint32
	line       int32
}

type segment struct {
	device     int64
	addr       uint64
	size       int64
	stream     uint64
	pool       uint32 // 1 + index in records.pairs, 0 where absent
	blocks     int32  // index in records.lists, -1 where absent
	expandable bool
}

type block struct {
	addr      uint64
	size      int64
	requested int64 // -1 where absent
	state     uint32
	has       fields
}

// span is one end of an external annotation.
type span struct {
	name   uint32
	stage  uint32
	device int64 // -1 where absent
	time   int64
}

// Strings that are known beforehand have fixed numbers.
const (
	sEmpty uint32 = iota
	sAction
	sAddr
	sSize
	sStream
	sTimeUS
	sFrames
	sUserMetadata
	sPoolID
	sFilename
	sName
	sLine
	sAddress
	sTotalSize
	sDevice
	sSegmentPoolID
	sIsExpandable
	sBlocks
	sRequestedSize
	sState
	sHistory
	sRealSize
	sStage
	sSegments
	sDeviceTraces
	sAllocatorSettings
	sExternalAnnotations
	sExpandableSegments
	sOverflowed
	sMaxEntries
	sAlloc
	sFreeRequested
	sFreeCompleted
	sFree
	sSegmentAlloc
	sSegmentFree
	sSegmentMap
	sSegmentUnmap
	sOOM
	sSnapshot
	sAnnotate
	sActiveAllocated
	sActivePendingFree
	sActiveAwaitingFree
	sSTART
	sEND
)

var knownStrings = [...]string{
	"", "action", "addr", "size", "stream", "time_us", "frames", "user_metadata", "pool_id",
	"filename", "name", "line", "address", "total_size", "device", "segment_pool_id",
	"is_expandable", "blocks", "requested_size", "state", "history", "real_size", "stage",
	"segments", "device_traces", "allocator_settings", "external_annotations",
	"expandable_segments", "trace_alloc_overflowed", "trace_alloc_max_entries",
	"alloc", "free_requested", "free_completed", "free", "segment_alloc", "segment_free",
	"segment_map", "segment_unmap", "oom", "snapshot", "annotate",
	"active_allocated", "active_pending_free", "active_awaiting_free", "START", "END",
}

func newRecords() *records {
	r := &records{strIDs: make(map[string]uint32), pairIDs: make(map[[2]uint64]uint32)}
	for _, s := range knownStrings {
		r.intern([]byte(s))
	}
	r.pairID([2]uint64{}) // the default pool is number 0
	return r
}

// intern returns the number of s.
func (r *records) intern(s []byte) uint32 {
	id, ok := r.strIDs[string(s)]
	if !ok {
		id = uint32(len(r.strs))
		text := string(s)
		r.strs = append(r.strs, text)
		r.strIDs[text] = id
	}
	return id
}

func (r *records) str(v value) string { return r.strs[v.n] }

// quote shortens what goes into a message.
func quote(s string) string {
	if len(s) > 60 {
		s = s[:60] + "…"
	}
	return strconv.Quote(s)
}

func (r *records) pairID(p [2]uint64) uint32 {
	id, ok := r.pairIDs[p]
	if !ok {
		id = uint32(len(r.pairs))
		r.pairs = append(r.pairs, p)
		r.pairIDs[p] = id
	}
	return id
}

// pair makes one value of two integers.
func (r *records) pair(items []value) (value, bool) {
	if len(items) != 2 || items[0].k != kInt || items[1].k != kInt {
		return value{}, false
	}
	return value{uint64(r.pairID([2]uint64{items[0].n, items[1].n})), kPair}, true
}

func (r *records) newList() value { return value{uint64(r.lists.add(list{items: -1})), kList} }
func (r *records) newDict() value { return value{uint64(r.dicts.add(dict{})), kDict} }

// extend appends items to a list. Frames are looked at and dropped; events that follow
// each other become one run.
func (r *records) extend(into value, items []value) {
	l := r.lists.at(int(into.n))
	for _, v := range items {
		if v.k == kDict {
			switch d := r.dicts.at(int(v.n)); d.shape {
			case shapeFrame:
				if l.site == 0 && r.userFrame(d.idx) {
					l.site = d.idx + 1
				}
				if r.stacks != nil && r.python(d.idx) {
					r.stacks.batch = append(r.stacks.batch, d.idx)
				}
				continue
			case shapeEvent:
				r.addEvent(l, d.idx)
				continue
			}
		}
		r.addItem(l, v)
	}
	if r.stacks != nil {
		l.stack = r.stacks.extend(l.stack)
	}
}

func (r *records) addItem(l *list, v value) {
	if l.items < 0 {
		l.items = int32(len(r.items))
		r.items = append(r.items, nil)
	}
	r.items[l.items] = append(r.items[l.items], v)
}

func (r *records) addEvent(l *list, i uint32) {
	if l.items >= 0 {
		if have := r.items[l.items]; len(have) > 0 {
			last := &have[len(have)-1]
			if last.k == kRun && uint32(last.n) == i {
				last.n++ // the low half is the end of the run
				return
			}
		}
	}
	r.addItem(l, value{uint64(i)<<32 | uint64(i+1), kRun})
}

// userFrame tells whether frame i is Python code outside torch itself.
func (r *records) userFrame(i uint32) bool {
	file := r.strs[r.frames.at(int(i)).file]
	return strings.HasSuffix(file, ".py") && !strings.Contains(file, "packages/torch/") && !strings.HasPrefix(file, "torch/")
}

// itemsOf returns what a list holds besides frames; nil for what is no list.
func (r *records) itemsOf(v value) []value {
	switch v.k {
	case kList:
		if l := r.lists.at(int(v.n)); l.items >= 0 {
			return r.items[l.items]
		}
	case kPair:
		p := r.pairs[v.n]
		return []value{{p[0], kInt}, {p[1], kInt}}
	}
	return nil
}

// get returns the value of key in a plain dict.
func (r *records) get(v value, key uint32) (value, bool) {
	if v.k != kDict {
		return value{}, false
	}
	d := r.dicts.at(int(v.n))
	if d.shape != shapePlain {
		return value{}, false
	}
	kv := r.plains[d.idx]
	for i := len(kv) - 2; i >= 0; i -= 2 { // the last one set wins
		if kv[i].k == kStr && uint32(kv[i].n) == key {
			return kv[i+1], true
		}
	}
	return value{}, false
}
