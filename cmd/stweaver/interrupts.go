package main

import "sync"

// interrupts ties signals to the search that may be running. The zero value has none. It is safe for
// concurrent use.
type interrupts struct {
	mu     sync.Mutex
	search chan struct{} // closed to end the search; nil where there is none to end
}

// arm returns the channel that a signal closes from now on until disarm.
func (i *interrupts) arm() <-chan struct{} {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.search = make(chan struct{})
	return i.search
}

// disarm says that there is no search to end any more.
func (i *interrupts) disarm() {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.search = nil
}

// endSearch ends the search that runs or is about to. It reports false if there is none, or it was
// ended before.
func (i *interrupts) endSearch() bool {
	i.mu.Lock()
	defer i.mu.Unlock()
	if i.search == nil {
		return false
	}
	close(i.search)
	i.search = nil
	return true
}
