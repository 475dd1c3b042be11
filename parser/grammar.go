package parser

import "github.com/alecthomas/participle/v2"

// The grammar, in participle's notation: the tags read like the syntax they parse; @@ reads
// the field's own production, @ keeps what follows. It is LL(1): each keyword decides what
// follows, so that an error is at the first token that cannot continue the statement.
// Leaves and expressions have handwritten parsers (leaves.go, expr.go).

// at is the position of a production: its first token, and the token after its last.
type at struct {
	Pos, EndPos position
}

type statementRule struct {
	Query    *queryRule    `parser:"@@"`
	Explain  *explainRule  `parser:"| @@"`
	Create   *createRule   `parser:"| @@"`
	Drop     *dropRule     `parser:"| @@"`
	Insert   *insertRule   `parser:"| @@"`
	Use      *useRule      `parser:"| @@"`
	Stop     *stopRule     `parser:"| @@"`
	Suspend  *suspendRule  `parser:"| @@"`
	Resume   *resumeRule   `parser:"| @@"`
	Set      *setRule      `parser:"| @@"`
	Show     *showRule     `parser:"| @@"`
	Describe *describeRule `parser:"| @@"`
}

type queryRule struct {
	at
	With    []*cteRule    `parser:"('WITH' @@ (',' @@)*)?"`
	Selects []*selectRule `parser:"@@ ('UNION' 'ALL' @@)*"`
	OrderBy []*orderRule  `parser:"('ORDER' 'BY' @@ (',' @@)*)?"`
	Limit   *wholeLeaf    `parser:"('LIMIT' @@"`
	Offset  *wholeLeaf    `parser:"('OFFSET' @@)?)?"`
	Emit    *emitRule     `parser:"('EMIT' @@)?"`
	For     *durationLeaf `parser:"('FOR' @@)?"`
	Error   *errorRule    `parser:"@@?"`
	Within  *percentLeaf  `parser:"('WITHIN' 'OVERHEAD' @@)?"`
}

type errorRule struct {
	at
	Within     percentLeaf  `parser:"'ERROR' 'WITHIN' @@"`
	Confidence *percentLeaf `parser:"('AT' 'CONFIDENCE' @@)?"`
}

type cteRule struct {
	at
	Name  wordLeaf   `parser:"@@ 'AS'"`
	Query *queryRule `parser:"'(' @@ ')'"`
}

type selectRule struct {
	at
	Distinct bool        `parser:"'SELECT' @'DISTINCT'?"`
	From     *fromRule   `parser:"( 'FROM' @@"`
	Items    []*itemRule `parser:"| @@ (',' @@)*"`
	Of       *fromRule   `parser:"('FROM' @@)? )"`
	Where    *exprLeaf   `parser:"('WHERE' @@)?"`
	GroupBy  []*exprLeaf `parser:"('GROUP' 'BY' @@ (',' @@)*)?"`
	Having   *exprLeaf   `parser:"('HAVING' @@)?"`
}

type itemRule struct {
	at
	Item  itemLeaf  `parser:"@@"`
	Alias *wordLeaf `parser:"('AS' @@"`
	Bare  *bareLeaf `parser:"| @@)?"`
}

type orderRule struct {
	at
	X    exprLeaf `parser:"@@"`
	Desc bool     `parser:"('ASC' | @'DESC')?"`
}

type emitRule struct {
	at
	Mode  string        `parser:"@('FINAL' | 'CHANGES')"`
	Every *durationLeaf `parser:"| 'EVERY' @@"`
}

type fromRule struct {
	at
	First *sourceRule `parser:"@@"`
	Joins []*joinRule `parser:"(','? @@)*"`
}

type joinRule struct {
	at
	Window *windowJoinRule `parser:"@@"`
	Plain  *plainJoinRule  `parser:"| @@"`
}

type windowJoinRule struct {
	Left       bool            `parser:"@'LEFT'? 'WINDOW' 'JOIN'"`
	Right      *sourceRule     `parser:"@@"`
	Within     durationLeaf    `parser:"('WINDOW' | 'WITHIN') @@"`
	FollowedBy *followedByLeaf `parser:"@@?"`
	On         *exprLeaf       `parser:"('ON' @@)?"`
}

type plainJoinRule struct {
	AsOf  bool        `parser:"@'ASOF'? 'JOIN'"`
	Right *sourceRule `parser:"@@"`
	On    *exprLeaf   `parser:"('ON' @@)?"`
}

// sourceRule accepts any name and any arguments; lowering checks them against the source's
// shape (source.go).
type sourceRule struct {
	at
	Query *queryRule `parser:"( '(' @@ ')'"`
	Name  *nameLeaf  `parser:"| @@"`
	Args  *argsRule  `parser:"@@? )"`
	Alias *wordLeaf  `parser:"('AS' @@"`
	Bare  *bareLeaf  `parser:"| @@)?"`
}

type argsRule struct {
	at
	Args []*argRule  `parser:"'(' (@@ (',' @@)*)?"`
	By   []*exprLeaf `parser:"('PARTITION' 'BY' @@ (',' @@)*)? ')'"`
}

type argRule struct {
	Literal *literalLeaf `parser:"@@"`
	Source  *sourceRule  `parser:"| @@"`
}

type explainRule struct {
	at
	Analyze bool        `parser:"'EXPLAIN' @'ANALYZE'?"`
	Query   *queryRule  `parser:"( @@"`
	Create  *createRule `parser:"| @@ )"`
}

type createRule struct {
	at
	Replace bool         `parser:"'CREATE' @('OR' 'REPLACE')?"`
	View    *viewRule    `parser:"( @@"`
	Trigger *triggerRule `parser:"| @@"`
	Query   *standsRule  `parser:"| @@"`
	Export  *exportRule  `parser:"| @@"`
	Context *contextRule `parser:"| @@ )"`
}

type contextRule struct {
	Name  wordLeaf  `parser:"'CONTEXT' @@ 'AS'"`
	Begin *edgeRule `parser:"'BEGIN' @@"`
	Key   exprLeaf  `parser:"'KEY' @@"`
	End   *edgeRule `parser:"('END' @@)?"`
}

type edgeRule struct {
	at
	Stream nameLeaf `parser:"@@"`
	Where  exprLeaf `parser:"'WHERE' @@"`
}

type standsRule struct {
	Name  wordLeaf   `parser:"'QUERY' @@ 'ON' 'FLEET' 'AS'"`
	Query *queryRule `parser:"( '(' @@ ')' | @@ )"`
}

type viewRule struct {
	Kind  string     `parser:"@('STREAM' | 'MODEL')"`
	Name  wordLeaf   `parser:"@@ 'AS'"`
	Query *queryRule `parser:"( '(' @@ ')' | @@ )"`
}

type triggerRule struct {
	Once    bool          `parser:"(@'ONCE' | 'CONTINUOUS')? 'TRIGGER'"`
	Name    wordLeaf      `parser:"@@ 'ON'?"`
	From    *fromRule     `parser:"@@"`
	When    exprLeaf      `parser:"'WHEN' @@"`
	Actions []*actionRule `parser:"'BEGIN' (@@ ';'?)* 'END'"`
}

type actionRule struct {
	at
	Sample  *actSampleRule  `parser:"@@"`
	Monitor *actMonitorRule `parser:"| @@"`
	Recall  *actRecallRule  `parser:"| @@"`
	Stop    *nameLeaf       `parser:"| 'STOP' @@"`
	Notify  *stringLeaf     `parser:"| 'NOTIFY' @@"`
	Webhook *stringLeaf     `parser:"| 'WEBHOOK' @@"`
	Insert  *insertRule     `parser:"| @@"`
	Query   *queryRule      `parser:"| @@"`
}

type actSampleRule struct {
	Stream nameLeaf      `parser:"'SAMPLE' '(' @@"`
	Every  durationLeaf  `parser:"',' @@ ')'"`
	For    *durationLeaf `parser:"('FOR' @@)?"`
}

type actMonitorRule struct {
	Stream nameLeaf      `parser:"'MONITOR' @@"`
	Where  *exprLeaf     `parser:"('WHERE' @@)?"`
	For    *durationLeaf `parser:"('FOR' @@)?"`
}

type actRecallRule struct {
	Stream *nameLeaf     `parser:"'RECALL' ( 'SAMPLE' '(' @@"`
	Every  *durationLeaf `parser:"',' @@ ')'"`
	Plain  *nameLeaf     `parser:"| @@ )"`
	Where  *exprLeaf     `parser:"('WHERE' @@)?"`
	Last   durationLeaf  `parser:"'LAST' @@"`
	Within *percentLeaf  `parser:"('WITHIN' 'OVERHEAD' @@)?"`
}

type exportRule struct {
	Name       wordLeaf      `parser:"'EXPORT' @@ 'TO'"`
	Prometheus bool          `parser:"( @'PROMETHEUS'"`
	Address    *stringLeaf   `parser:"| @@ )"`
	Options    []*optionRule `parser:"('WITH' '(' @@ (',' @@)* ')')? 'AS'"`
	Query      *queryRule    `parser:"( '(' @@ ')' | @@ )"`
}

type optionRule struct {
	at
	Name wordLeaf `parser:"@@ '=>'"`
	X    exprLeaf `parser:"@@"`
}

type dropRule struct {
	at
	Kind string   `parser:"'DROP' @('STREAM' | 'TRIGGER' | 'MODEL' | 'EXPORT' | 'QUERY' | 'CONTEXT')"`
	Name dropLeaf `parser:"@@"`
}

type insertRule struct {
	at
	Path  stringLeaf `parser:"'INSERT' 'INTO' 'FILE' '(' @@ ')'"`
	Query *queryRule `parser:"@@"`
}

type useRule struct {
	at
	PID  *wholeLeaf  `parser:"'USE' ( 'PID' @@"`
	None bool        `parser:"| @'NONE'"`
	In   *stringLeaf `parser:"| 'CONTAINER' @@"`
	Name *stringLeaf `parser:"| @@ )"`
}

type stopRule struct {
	at
	ID valueLeaf `parser:"'STOP' @@"`
}

type suspendRule struct {
	at
	Word   string      `parser:"@'SUSPEND'"`
	Thread *stringLeaf `parser:"('THREAD' @@)?"`
}

type resumeRule struct {
	at
	Word   string      `parser:"@'RESUME'"`
	Thread *stringLeaf `parser:"('THREAD' @@)?"`
}

type setRule struct {
	at
	Key   wordLeaf  `parser:"'SET' @@"`
	Value valueLeaf `parser:"'=' @@"`
}

type showRule struct {
	at
	What string      `parser:"'SHOW' @('STREAMS' | 'CHECKS' | 'CONTAINERS' | 'CONTEXTS' | 'EXPORTS' | 'FUNCTIONS' | 'MODELS' | 'QUERIES' | 'TRIGGERS' | 'PROBES' | 'SETTINGS' | 'PROCESSES' | 'DROPS' | 'HOSTS')"`
	Like *stringLeaf `parser:"('LIKE' @@)?"`
}

// describeRule leaves FUNCTION to describeLeaf, because a stream may have that name.
type describeRule struct {
	at
	Subject describeLeaf `parser:"'DESCRIBE' @@"`
}

// grammar is LL(1), without backtracking. Keywords are matched in any case.
var grammar = participle.MustBuild[statementRule](
	participle.Lexer(tokenNames{}),
	participle.CaseInsensitive("Word", "Reserved"),
	participle.UseLookahead(0),
)
