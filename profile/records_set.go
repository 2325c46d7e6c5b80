package profile

// set stores the key-value pairs in items into a dict. The first keys that tell the dict's
// shape turn it into a record; until then it is plain.
func (r *records) set(into value, items []value) error {
	if len(items)%2 != 0 {
		return fault("a dict has a key without a value").hint("the file is damaged")
	}
	if len(items) == 0 {
		return nil
	}
	d := r.dicts.at(int(into.n))
	if d.shape == shapeEmpty || d.shape == shapePlain {
		s := shapeOf(items)
		switch {
		case s != shapePlain:
			var old []value
			if d.shape == shapePlain {
				old, r.plains[d.idx] = r.plains[d.idx], nil
			}
			d.shape, d.idx = s, r.newRecord(s)
			if err := r.apply(d, old); err != nil {
				return err
			}
		case d.shape == shapeEmpty:
			d.shape, d.idx = shapePlain, uint32(len(r.plains))
			r.plains = append(r.plains, nil)
		}
	}
	return r.apply(d, items)
}

// shapeOf tells a dict by its keys.
func shapeOf(kv []value) shape {
	for i := 0; i < len(kv); i += 2 {
		if kv[i].k != kStr {
			continue
		}
		switch uint32(kv[i].n) {
		case sAction:
			return shapeEvent
		case sFilename:
			return shapeFrame
		case sBlocks, sTotalSize:
			return shapeSegment
		case sState:
			return shapeBlock
		case sStage:
			return shapeSpan
		}
	}
	return shapePlain
}

func (r *records) newRecord(s shape) uint32 {
	switch s {
	case shapeEvent:
		return uint32(r.events.add(event{time: noTime}))
	case shapeFrame:
		return uint32(r.frames.add(frame{}))
	case shapeBlock:
		return uint32(r.blocks.add(block{requested: -1}))
	case shapeSegment:
		r.segments = append(r.segments, segment{blocks: -1})
		return uint32(len(r.segments) - 1)
	default:
		r.spans = append(r.spans, span{device: -1, time: noTime})
		return uint32(len(r.spans) - 1)
	}
}

func (r *records) apply(d *dict, kv []value) error {
	if d.shape == shapePlain {
		r.plains[d.idx] = append(r.plains[d.idx], kv...)
		return nil
	}
	for i := 0; i < len(kv); i += 2 {
		if kv[i].k != kStr || kv[i+1].k == kNone {
			continue // None says as much as an absent key
		}
		key, v := uint32(kv[i].n), kv[i+1]
		var err error
		switch d.shape {
		case shapeEvent:
			err = r.setEvent(r.events.at(int(d.idx)), key, v)
		case shapeFrame:
			err = r.setFrame(r.frames.at(int(d.idx)), key, v)
		case shapeSegment:
			err = r.setSegment(&r.segments[d.idx], key, v)
		case shapeBlock:
			err = r.setBlock(r.blocks.at(int(d.idx)), key, v)
		case shapeSpan:
			err = r.setSpan(&r.spans[d.idx], key, v)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func (r *records) setEvent(e *event, key uint32, v value) error {
	switch key {
	case sAction:
		return r.toStr(&e.act, key, v)
	case sAddr:
		e.has |= hasAddr
		return r.toBits(&e.addr, key, v)
	case sSize:
		e.has |= hasSize
		return r.toInt(&e.size, key, v)
	case sStream:
		return r.toBits(&e.stream, key, v)
	case sTimeUS:
		return r.toInt(&e.time, key, v)
	case sUserMetadata:
		return r.toStr(&e.label, key, v)
	case sPoolID:
		return r.toPool(&e.pool, key, v)
	case sFrames:
		if v.k == kList {
			l := r.lists.at(int(v.n))
			e.site, e.stack = l.site, l.stack
		}
	}
	return nil
}

func (r *records) setFrame(f *frame, key uint32, v value) error {
	switch key {
	case sFilename:
		return r.toStr(&f.file, key, v)
	case sName:
		return r.toStr(&f.name, key, v)
	case sLine:
		var n int64
		err := r.toInt(&n, key, v)
		f.line = int32(n)
		return err
	}
	return nil
}

func (r *records) setSegment(s *segment, key uint32, v value) error {
	switch key {
	case sDevice:
		return r.toInt(&s.device, key, v)
	case sAddress:
		return r.toBits(&s.addr, key, v)
	case sTotalSize:
		return r.toInt(&s.size, key, v)
	case sStream:
		return r.toBits(&s.stream, key, v)
	case sSegmentPoolID:
		return r.toPool(&s.pool, key, v)
	case sIsExpandable:
		s.expandable = (v.k == kBool || v.k == kInt) && v.n != 0
	case sBlocks:
		if v.k != kList {
			return r.wrong(key, v, "list")
		}
		s.blocks = int32(v.n)
	}
	return nil
}

func (r *records) setBlock(b *block, key uint32, v value) error {
	switch key {
	case sAddress:
		b.has |= hasAddr
		return r.toBits(&b.addr, key, v)
	case sSize:
		return r.toInt(&b.size, key, v)
	case sRequestedSize:
		return r.toInt(&b.requested, key, v)
	case sState:
		return r.toStr(&b.state, key, v)
	case sHistory: // before torch 2.1 the requested size is only here
		if h := r.itemsOf(v); len(h) > 0 && b.requested < 0 {
			if real, ok := r.get(h[0], sRealSize); ok {
				return r.toInt(&b.requested, sRealSize, real)
			}
		}
	}
	return nil
}

func (r *records) setSpan(s *span, key uint32, v value) error {
	switch key {
	case sName:
		return r.toStr(&s.name, key, v)
	case sStage:
		return r.toStr(&s.stage, key, v)
	case sDevice:
		return r.toInt(&s.device, key, v)
	case sTimeUS:
		return r.toInt(&s.time, key, v)
	}
	return nil
}

func (r *records) wrong(key uint32, v value, want string) error {
	return fault("field %s is a %s, not a %s", quote(r.strs[key]), v.k, want).hint("no dialect of torch writes that")
}

func (r *records) toStr(to *uint32, key uint32, v value) error {
	if v.k != kStr {
		return r.wrong(key, v, "str")
	}
	*to = uint32(v.n)
	return nil
}

// toBits takes addresses and handles, which some writers store signed.
func (r *records) toBits(to *uint64, key uint32, v value) error {
	if v.k != kInt && v.k != kUint {
		return r.wrong(key, v, "int")
	}
	*to = v.n
	return nil
}

func (r *records) toInt(to *int64, key uint32, v value) error {
	switch v.k {
	case kInt, kBool:
		*to = int64(v.n)
		return nil
	case kUint:
		return fault("field %s is %d, too large", quote(r.strs[key]), v.n)
	}
	return r.wrong(key, v, "int")
}

func (r *records) toPool(to *uint32, key uint32, v value) error {
	if v.k == kList { // a writer without tuples
		v, _ = r.pair(r.itemsOf(v))
	}
	if v.k != kPair {
		return r.wrong(key, v, "pair of ints")
	}
	*to = uint32(v.n) + 1
	return nil
}
