package lang

import (
	"github.com/alecthomas/participle/v2"
	"github.com/alecthomas/participle/v2/lexer"
)

// The grammar: the tags are the rules, and the parser prints them (testdata/grammar.ebnf). The nodes are
// syntax only; what they mean is in check.go and condition.go.

// Node types of the tree, one for each statement, then those of conditions.
type (
	statement struct {
		Pos      lexer.Position
		Include  *includeStmt  `parser:"@@"`
		Device   *deviceStmt   `parser:"| @@"`
		Select   *selectStmt   `parser:"| @@"`
		Pin      *pinStmt      `parser:"| @@"`
		Arena    *arenaStmt    `parser:"| @@"`
		Together *togetherStmt `parser:"| @@"`
		Apart    *apartStmt    `parser:"| @@"`
		Keep     *keepStmt     `parser:"| @@"`
		Share    *shareStmt    `parser:"| @@"`
		Separate *separateStmt `parser:"| @@"`
		Treat    *treatStmt    `parser:"| @@"`
		Reserve  *reserveStmt  `parser:"| @@"`
		Guard    *guardStmt    `parser:"| @@"`
		Expect   *expectStmt   `parser:"| @@"`
		Solver   *solverStmt   `parser:"| @@"`
		Step     *stepStmt     `parser:"| @@"`
	}

	includeStmt struct {
		Path *text `parser:"'include' @@"`
	}
	deviceStmt struct {
		Settings []*setting `parser:"'device' '{' @@* '}'"`
	}
	solverStmt struct {
		Settings []*setting `parser:"'solver' '{' @@* '}'"`
	}
	setting struct {
		Name  *word         `parser:"@@"`
		Value *settingValue `parser:"@@"`
		For   *word         `parser:"( 'for' @@ )?"`
	}
	selectStmt struct {
		Name  *word      `parser:"'select' @@"`
		Where *condition `parser:"'where' @@"`
	}
	pinStmt struct {
		Of   *target `parser:"'pin' @@"`
		At   *number `parser:"( 'at' @@"`
		From *number `parser:"| 'within' @@"`
		To   *number `parser:"'..' @@ )"`
	}
	arenaStmt struct {
		Of     *target   `parser:"'arena' @@"`
		Limits []*option `parser:"@@*"`
	}
	togetherStmt struct {
		Of *target `parser:"'together' @@"`
	}
	apartStmt struct {
		Of []*target `parser:"'apart' @@ ( ',' @@ )*"`
	}
	keepStmt struct {
		Of []*target `parser:"'keep' @@ ( ',' @@ )*"`
	}
	shareStmt struct {
		Streams []*number `parser:"'share' 'streams' ( @@ ( ',' @@ )* )?"`
		Age     *number   `parser:"( 'age' @@ )?"`
	}
	separateStmt struct {
		Streams []*number `parser:"'separate' 'streams' ( @@ ( ',' @@ )* )?"`
	}
	treatStmt struct {
		Of []*target `parser:"'treat' @@ ( ',' @@ )*"`
		As *word     `parser:"'as' @@"`
	}
	reserveStmt struct {
		Options []*option `parser:"'reserve' 'dynamic' @@+"`
	}
	guardStmt struct {
		Of    []*target `parser:"'guard' ( @@ ( ',' @@ )* )?"`
		Ticks *number   `parser:"@@"`
		Unit  *word     `parser:"@@"`
	}
	expectStmt struct {
		Measure *word   `parser:"'expect' @@"`
		Op      string  `parser:"@( '<=' | '>=' | '<' | '>' | '=' )"`
		Limit   *number `parser:"@@"`
	}
	stepStmt struct {
		Pos   lexer.Position
		At    []*number  `parser:"'step' ( 'at' @@ ( ',' @@ )*"`
		Every *number    `parser:"| 'every' @@"`
		From  *number    `parser:"( 'from' @@ )?"`
		Where *condition `parser:"| 'where' @@ )"`
	}

	option struct {
		Name  *word   `parser:"@@"`
		Value *number `parser:"@@"`
	}
	target struct {
		Pos   lexer.Position
		Name  *word      `parser:"@@"`
		Where *condition `parser:"| '(' @@ ')'"`
	}

	condition struct {
		Terms []*conjunction `parser:"@@ ( 'or' @@ )*"`
	}
	conjunction struct {
		Terms []*term `parser:"@@ ( 'and' @@ )*"`
	}
	term struct {
		Nots  []string   `parser:"@'not'*"`
		Group *condition `parser:"( '(' @@ ')'"`
		Test  *test      `parser:"| @@ )"`
	}
	test struct {
		Name   *word     `parser:"@@"`
		Op     *operator `parser:"( @@"`
		Values []*value  `parser:"@@ ( ',' @@ )* )?"`
	}
	operator struct {
		Pos lexer.Position
		Op  string `parser:"@( '=' | '!=' | '<=' | '>=' | '<' | '>' | '~' | '!~' | 'in' )"`
	}
	value struct {
		Pos  lexer.Position
		Low  *number `parser:"( @@"`
		High *number `parser:"( '..' @@ )?"`
		Unit *word   `parser:"@@? )"`
		Word *word   `parser:"| @@"`
		Text *text   `parser:"| @@"`
	}
	settingValue struct {
		Number *number `parser:"@@"`
		Word   *word   `parser:"| @@"`
	}
	word struct {
		Pos  lexer.Position
		Text string `parser:"@Name"`
	}
	number struct {
		Pos  lexer.Position
		Text string `parser:"@Number"`
	}
	text struct {
		Pos  lexer.Position
		Text string `parser:"@( String | Regexp )"` // with its quotes
	}
)

var parser = participle.MustBuild[statement](participle.Lexer(definition{}), participle.UseLookahead(2))

// EBNF is the grammar of one statement, as the parser prints it.
func EBNF() string { return parser.String() + "\n" }

// parseStatement parses tokens, without comments. The error is participle's.
func parseStatement(tokens []lexer.Token) (*statement, error) {
	list := &tokenList{tokens: tokens}
	peeking, err := lexer.Upgrade(list)
	if err != nil {
		return nil, err
	}
	return parser.ParseFromLexer(peeking)
}
