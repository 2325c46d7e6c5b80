// Package lang is the rules language: it reads what people want a plan to respect, checks it, and makes
// ir.Rules of it. README.md in this folder is its reference; grammar.go its syntax, printed as EBNF in
// testdata/grammar.ebnf.
//
//	text ── lexer.go ── tokens ── syntax.go ── statements ── grammar.go ── tree ── check.go, condition.go, rules.go ── ir.Rules
//
// Rules of the language, by number:
//
//	L1  A statement begins a line with its word, and goes on until the next one does.
//	L2  Statements hold in the order written. An include stands for the text of its file; each file counts once.
//	L3  A selection is named once, above its uses, and is a set of requests: it takes what its condition
//	    says, of any iteration.
//	L4  What can be set once (a device's capacity, the effort, where iterations begin) is set once in one
//	    file. A file has the last word over those it includes.
//	L5  All mistakes are reported, up to a hundred, and a program with one is not used at all.
//	L6  A program is the list of its statements, each in its one canonical form: that is what a plan carries, and
//	    what it is read back from.
//
// Nothing here depends on a profile. Selections are evaluated by package compiler.
package lang
