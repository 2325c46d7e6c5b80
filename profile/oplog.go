package profile

import (
	"bufio"
	"bytes"
	"fmt"
	"io"

	"stweaver/ir"
)

// The op log: one request a line, as the ordinals of the operations that allocated and
// freed it, and its bytes.
//
//	0 381 92928
//
// An ordinal names one event, so free > alloc, and the memory is free from the free's
// ordinal on: [alloc, free).

// sniffOplog accepts text whose first line is three integers.
func sniffOplog(head []byte) bool {
	ok := false
	headLines(head, func(line []byte) bool {
		_, fail := parseOp(line)
		ok = fail == nil
		return false
	})
	return ok
}

func readOplog(r *bufio.Reader, o Options) (*ir.Trace, error) {
	if o.Device > 0 {
		return nil, fault("an op log does not name devices: there is only device 0")
	}
	in := &lines{r: r}
	var list []interval
	zero := 0
	for {
		line, err := in.next()
		if err == io.EOF {
			break
		}
		if err != nil {
			return nil, err
		}
		v, fail := parseOp(line)
		if fail == nil {
			fail = checkInterval(v)
		}
		if fail != nil {
			return nil, fail.line(in.n)
		}
		if v.size == 0 {
			zero++
			continue
		}
		v.id = fmt.Sprint(v.lower) // the allocating operation names the request
		list = append(list, v)
	}
	return renumber(list, zero)
}

func parseOp(line []byte) (v interval, fail *Error) {
	f := bytes.Fields(line)
	if len(f) != 3 {
		return v, fault("%d fields instead of 3", len(f)).hint("a line is: alloc op, free op, bytes")
	}
	for i, to := range []*int64{&v.lower, &v.upper, &v.size} {
		n, ok := parseInt(f[i])
		if !ok {
			return v, fault("no integer of 64 bits: %s", quote(string(f[i]))).hint("a line is: alloc op, free op, bytes")
		}
		*to = n
	}
	return v, nil
}
