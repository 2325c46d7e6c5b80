package profile

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"errors"
	"io"

	kgzip "github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/zstd"
)

const (
	sniffLen   = 64 << 10  // bytes of content that a sniffer may see
	maxWindow  = 128 << 20 // zstd window accepted, as zstd --long=27
	maxWraps   = 2         // compression inside compression, once
	progressBy = 1 << 20   // bytes between two calls of Options.Progress
)

var (
	gzipMagic = []byte{0x1f, 0x8b}
	zstdMagic = []byte{0x28, 0xb5, 0x2f, 0xfd}
)

// unwrap peels compression off r and returns the content, with a function that gives the
// decompressors back. Memory is bounded by the windows, whatever the stream claims.
func unwrap(r io.Reader) (*bufio.Reader, func(), error) {
	closers := []func(){}
	closeAll := func() {
		for _, c := range closers {
			c()
		}
	}
	for wraps := 0; ; wraps++ {
		in := bufio.NewReaderSize(r, sniffLen)
		magic, err := in.Peek(4)
		if err != nil && !errors.Is(err, io.EOF) {
			closeAll()
			return nil, nil, readFault(err, 0)
		}
		isGzip, isZstd := bytes.HasPrefix(magic, gzipMagic), bytes.HasPrefix(magic, zstdMagic)
		if !isGzip && !isZstd {
			return in, closeAll, nil
		}
		if wraps == maxWraps {
			closeAll()
			return nil, nil, fault("compressed more than %d times over", maxWraps)
		}
		if isGzip {
			z, err := kgzip.NewReader(in)
			if err != nil {
				closeAll()
				return nil, nil, readFault(decompressFault{"gzip", err}.word(), 0)
			}
			r = decompressor{z, "gzip"}
		} else {
			z, err := zstd.NewReader(in, zstd.WithDecoderConcurrency(1), zstd.WithDecoderLowmem(true),
				zstd.WithDecoderMaxWindow(maxWindow), zstd.WithDecoderMaxMemory(2*maxWindow))
			if err != nil {
				closeAll()
				return nil, nil, readFault(decompressFault{"zstd", err}.word(), 0)
			}
			closers = append(closers, z.Close)
			r = decompressor{z, "zstd"}
		}
	}
}

// drain reads a little beyond what a reader needed: a pickle says itself where it ends,
// and the checksum of a compressed stream comes after that.
func drain(in *bufio.Reader) error {
	if _, err := io.CopyN(io.Discard, in, 1<<20); err != nil && err != io.EOF {
		return readFault(err, -1)
	}
	return nil
}

// decompressor names the layer in the errors of a decompressing reader.
type decompressor struct {
	io.Reader
	kind string
}

func (d decompressor) Read(p []byte) (int, error) {
	n, err := d.Reader.Read(p)
	if err != nil && err != io.EOF {
		err = decompressFault{d.kind, err}.word()
	}
	return n, err
}

type decompressFault struct {
	kind string
	err  error
}

func (d decompressFault) word() error {
	switch {
	case errors.Is(d.err, io.ErrUnexpectedEOF), errors.Is(d.err, io.EOF):
		return fault("the %s stream ends in the middle", d.kind).because(io.ErrUnexpectedEOF).
			hint("it was cut short: copy or record it again")
	case errors.Is(d.err, gzip.ErrChecksum), errors.Is(d.err, zstd.ErrCRCMismatch):
		return fault("the %s checksum is wrong", d.kind).because(d.err).hint("the file is damaged: copy it again")
	case errors.Is(d.err, zstd.ErrWindowSizeExceeded), errors.Is(d.err, zstd.ErrDecoderSizeExceeded):
		return fault("the zstd window is above %d MiB", maxWindow>>20).because(d.err).hint("compress it without --long, or with --long=27")
	}
	var own *Error
	if errors.As(d.err, &own) {
		return own
	}
	return fault("%s: %v", d.kind, d.err).because(d.err)
}

// meter reports how much of a stream was read.
type meter struct {
	r           io.Reader
	done, total int64
	told        int64
	tell        func(done, total int64)
}

func (m *meter) Read(p []byte) (int, error) {
	n, err := m.r.Read(p)
	m.done += int64(n)
	if m.done-m.told >= progressBy || err == io.EOF && m.done != m.told {
		m.told = m.done
		m.tell(m.done, m.total)
	}
	return n, err
}
