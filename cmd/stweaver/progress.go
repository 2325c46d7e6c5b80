package main

import (
	"github.com/vbauerster/mpb/v8"
	"github.com/vbauerster/mpb/v8/decor"
)

// progress is one line on standard error while something long runs. On anything but a
// terminal it writes nothing.
type progress struct {
	pool *mpb.Progress
	bar  *mpb.Bar
	text string
}

func (a *app) progress(title string) *progress {
	p := &progress{}
	if !isTerminal(a.stderr) {
		return p
	}
	p.pool = mpb.New(mpb.WithOutput(a.stderr), mpb.WithWidth(40))
	p.bar = p.pool.AddBar(0, mpb.BarRemoveOnComplete(),
		mpb.PrependDecorators(decor.Name(title+" ")),
		mpb.AppendDecorators(decor.Percentage(), decor.Any(func(decor.Statistics) string { return " " + p.text })))
	return p
}

// set shows done of total, with a note. Called from one goroutine.
func (p *progress) set(done, total int64, text string) {
	if p.bar == nil {
		return
	}
	p.text = text
	p.bar.SetTotal(max(total, done+1), false)
	p.bar.SetCurrent(done)
}

func (p *progress) close() {
	if p.bar != nil {
		p.bar.Abort(true)
		p.pool.Wait()
	}
}
