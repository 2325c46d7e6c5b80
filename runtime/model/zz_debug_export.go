package model

func (a *Allocator) ZZ() any { return a.match.stretches }
