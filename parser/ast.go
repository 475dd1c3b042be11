package parser

// Span is the half-open byte range [Start, Stop) of a node in the source text. Every node
// embeds one.
type Span struct{ Start, Stop int }

// Pos returns the range, so that every node satisfies [Node].
func (s Span) Pos() Span { return s }

// Node has a position in the source text.
type Node interface{ Pos() Span }

// Statement is one statement of the language (dialect.md, "Statements").
type Statement interface {
	Node
	// String prints the statement in canonical form: parsing it again yields the same tree
	// except for positions.
	String() string
	statement()
}

// Statements.
type (
	// Query is WITH ... SELECT ... {UNION ALL SELECT ...} ORDER BY ... LIMIT ... OFFSET ...
	// EMIT ... FOR ... ERROR WITHIN ... WITHIN OVERHEAD ...
	Query struct {
		Span
		With      []*CTE
		Selects   []*Select // one, or more joined by UNION ALL
		OrderBy   []*OrderItem
		Limit     *Literal   // integer, or nil
		Offset    *Literal   // integer, or nil; only with Limit
		Emit      *Emit      // nil: not given
		For       *Literal   // duration, or nil
		Precision *Precision // nil: not given
		// Overhead is the percentage of WITHIN OVERHEAD, or nil.
		Overhead *Literal
	}
	// Explain is EXPLAIN [ANALYZE] query, or EXPLAIN CREATE of a trigger, a model or an
	// export.
	Explain struct {
		Span
		Analyze bool
		Of      Statement // *Query, *CreateTrigger, *CreateModel or *CreateExport
	}
	// CreateStream is CREATE [OR REPLACE] STREAM name AS query.
	CreateStream struct {
		Span
		Replace bool
		Name    *Ident
		Query   *Query
	}
	// CreateModel is CREATE [OR REPLACE] MODEL name AS query.
	CreateModel struct {
		Span
		Replace bool
		Name    *Ident
		Query   *Query
	}
	// CreateTrigger is CREATE [OR REPLACE] [ONCE|CONTINUOUS] TRIGGER name [ON]
	// from WHEN cond BEGIN actions END.
	CreateTrigger struct {
		Span
		Replace bool
		Once    bool
		Name    *Ident
		From    *From
		When    Expr
		Actions []Action
	}
	// CreateExport is CREATE [OR REPLACE] EXPORT name TO (PROMETHEUS|'url')
	// [WITH (option => value, ...)] AS query.
	CreateExport struct {
		Span
		Replace bool
		Name    *Ident
		To      *Literal // the URL; nil: PROMETHEUS
		Options []*Option
		Query   *Query
	}
	// CreateQuery is CREATE QUERY name ON FLEET AS query.
	CreateQuery struct {
		Span
		Name  *Ident
		Query *Query
	}
	// CreateContext is CREATE [OR REPLACE] CONTEXT name AS BEGIN stream WHERE cond KEY x
	// [END stream WHERE cond].
	CreateContext struct {
		Span
		Replace bool
		Name    *Ident
		Begin   *Edge
		Key     Expr
		End     *Edge // nil: the end of the call that begins it
	}
	// Edge is where a context begins or ends: stream WHERE cond.
	Edge struct {
		Span
		Stream *Ident
		Where  Expr
	}
	// Drop is DROP (STREAM|TRIGGER|MODEL|EXPORT|QUERY|CONTEXT) [IF EXISTS] name.
	Drop struct {
		Span
		Kind     string // "STREAM", "TRIGGER", "MODEL", "EXPORT", "QUERY" or "CONTEXT"
		IfExists bool
		Name     *Ident
	}
	// Insert is INSERT INTO file('path') query.
	Insert struct {
		Span
		Path  *Literal
		Query *Query
	}
	// Use is USE target.
	Use struct {
		Span
		PID  *Literal // USE PID n
		Name *Literal // USE 'process' or '/path'
		In   *Literal // USE CONTAINER 'name'
		None bool     // USE NONE
	}
	// Stop is STOP query_id.
	Stop struct {
		Span
		ID *Literal
	}
	// Suspend is SUSPEND [THREAD 'name'].
	Suspend struct {
		Span
		Thread *Literal
	}
	// Resume is RESUME [THREAD 'name'].
	Resume struct {
		Span
		Thread *Literal
	}
	// Set is SET key = value. A bare word is a string literal.
	Set struct {
		Span
		Key   *Ident
		Value *Literal
	}
	// Show is SHOW what [LIKE 'pattern'].
	Show struct {
		Span
		What string // upper case: STREAMS, FUNCTIONS, ...
		Like *Literal
	}
	// Describe is DESCRIBE stream, or DESCRIBE FUNCTION name.
	Describe struct {
		Span
		Function bool
		Name     *Ident
	}
)

// Action is an action of a trigger.
type Action interface {
	Node
	String() string
	action()
}

// Actions. A *Query and an *Insert are actions too.
type (
	// ActSample is SAMPLE(stream, dur) [FOR dur].
	ActSample struct {
		Span
		Stream *Ident
		Every  *Literal
		For    *Literal
	}
	// ActMonitor is MONITOR stream [WHERE e] [FOR dur].
	ActMonitor struct {
		Span
		Stream *Ident
		Where  Expr
		For    *Literal
	}
	// ActRecall is RECALL stream [WHERE e] LAST dur [WITHIN OVERHEAD p], or RECALL SAMPLE(stream, dur) ...
	ActRecall struct {
		Span
		Stream   *Ident
		Every    *Literal
		Where    Expr
		Last     *Literal
		Overhead *Literal
	}
	// ActStop is STOP stream.
	ActStop struct {
		Span
		Stream *Ident
	}
	// ActNotify is NOTIFY 'text'.
	ActNotify struct {
		Span
		Text *Literal
	}
	// ActWebhook is WEBHOOK 'url'.
	ActWebhook struct {
		Span
		URL *Literal
	}
)

// Parts of a query.
type (
	// CTE is name AS ( query ) in a WITH clause.
	CTE struct {
		Span
		Name  *Ident
		Query *Query
	}
	// Option is name => value in the WITH of an export.
	Option struct {
		Span
		Name *Ident
		X    Expr
	}
	// Select is one SELECT with its FROM, WHERE, GROUP BY and HAVING.
	Select struct {
		Span
		Distinct bool
		Items    []*SelectItem // empty for *
		From     *From         // nil: not given; the result has one row
		Where    Expr
		GroupBy  []Expr
		Having   Expr
	}
	// SelectItem is *, alias.*, or an expression with an optional alias.
	SelectItem struct {
		Span
		Star      bool
		Qualifier *Ident // of alias.*
		X         Expr
		Alias     *Ident
	}
	// OrderItem is one key of ORDER BY.
	OrderItem struct {
		Span
		X    Expr
		Desc bool
	}
	// Emit is EMIT FINAL, EMIT CHANGES or EMIT EVERY dur.
	Emit struct {
		Span
		Mode  string   // "FINAL", "CHANGES" or "EVERY"
		Every *Literal // duration of EVERY
	}
	// Precision is ERROR WITHIN 5% [AT CONFIDENCE 95%].
	Precision struct {
		Span
		Error      *Literal // percentage
		Confidence *Literal // percentage, or nil
	}
	// From is a source and the sources joined to it, left to right.
	From struct {
		Span
		First *Source
		Joins []*Join
	}
	// Join is one joined source.
	Join struct {
		Span
		Kind       JoinKind
		Right      *Source
		Within     *Literal // duration; nil for ASOF and plain
		FollowedBy *FollowedBy
		On         Expr
	}
	// FollowedBy is first FOLLOWED BY second, both aliases or stream names.
	FollowedBy struct {
		Span
		First, Second *Ident
	}
	// Source is a relation in FROM, with its alias.
	Source struct {
		Span
		Kind  SourceKind
		Name  *Ident     // SourceStream; SourceSample
		Args  []*Literal // SAMPLE: interval; TUMBLE: size; HOP: slide, size; SESSION: gap; file: path; series: n
		Src   *Source    // TUMBLE, HOP, SESSION, CONSISTENT
		By    []Expr     // SESSION: PARTITION BY
		Query *Query     // SourceQuery
		Alias *Ident
	}
)

// JoinKind is the kind of a join.
type JoinKind uint8

// Kinds of join.
const (
	JoinPlain JoinKind = iota // JOIN: a value acquired on demand
	JoinWindow
	JoinLeftWindow
	JoinAsOf
)

// SourceKind is the kind of a source.
type SourceKind uint8

// Kinds of source.
const (
	SourceStream SourceKind = iota
	SourceSample
	SourceTumble
	SourceHop
	SourceSession
	SourceConsistent
	SourceFile
	SourceSeries
	SourceQuery
)

// Expr is an expression.
type Expr interface {
	Node
	String() string
	expr()
}

// Expressions.
type (
	// Ident is a name. Name is its value (unquoted, as written); Quoted is set if it was
	// written in double quotes.
	Ident struct {
		Span
		Name   string
		Quoted bool
	}
	// ColumnRef is column, alias.column, args.a[1].b: one or more parts; a part includes
	// its indices.
	ColumnRef struct {
		Span
		Parts []*Ident
	}
	// Literal is a constant.
	Literal struct {
		Span
		Kind LiteralKind
		Text string  // as written (strings: as written, with quotes)
		Int  int64   // LitInt; LitUnsigned: its 64 bits; LitDuration in ns; LitSize in bytes; LitBool 0 or 1
		F    float64 // LitFloat, LitPercent
		Str  string  // LitString: its value
	}
	// Param is $1, $2, ...
	Param struct {
		Span
		N int
	}
	// Unary is NOT x, -x or +x.
	Unary struct {
		Span
		Op string // "NOT", "-", "+"
		X  Expr
	}
	// Binary is x op y. Op is upper case and canonical: OR AND = <> < <= > >=
	// + - * / % || LIKE ILIKE ~ and "NOT LIKE", "NOT ILIKE", "!~".
	Binary struct {
		Span
		Op    string
		OpPos Span
		X, Y  Expr
	}
	// Between is x [NOT] BETWEEN lo AND hi.
	Between struct {
		Span
		Not       bool
		X, Lo, Hi Expr
	}
	// In is x [NOT] IN (list [, ...]).
	In struct {
		Span
		Not  bool
		X    Expr
		List []Expr
	}
	// IsNull is x IS [NOT] NULL.
	IsNull struct {
		Span
		Not bool
		X   Expr
	}
	// Case is CASE [x] WHEN a THEN b ... [ELSE c] END.
	Case struct {
		Span
		X     Expr
		Whens []*When
		Else  Expr
	}
	// When is one arm of a CASE.
	When struct {
		Span
		Cond, Then Expr
	}
	// Cast is CAST(x AS type) or x::type.
	Cast struct {
		Span
		X    Expr
		Type *Ident
	}
	// Read is memory of the program, read as a type of the program:
	// CAST(args.ctx AS 'struct task *').name, container_of(args.link, 'struct task', 'link').id.
	Read struct {
		Span
		X      Expr     // where it is: *ColumnRef or *Read
		Add    int64    // bytes added to that
		Type   *Literal // a text: what CAST reads there, or what contains Member
		Member *Literal // a text: the member that container_of has the address of; nil: CAST
		Path   []*Ident // its fields and elements
	}
	// Call is name(args) with the clauses that an aggregate may have.
	Call struct {
		Span
		Name     *Ident
		Star     bool // COUNT(*)
		Distinct bool
		Args     []*Arg
		Within   *OrderItem // WITHIN GROUP (ORDER BY x)
		Filter   Expr       // FILTER (WHERE e)
		Field    *Ident     // frame(stack, 2).line; nil: the value itself
	}
	// Arg is one argument, optionally named: k => 3.
	Arg struct {
		Span
		Name *Ident
		X    Expr
	}
)

// LiteralKind is the kind of a literal.
type LiteralKind uint8

// Kinds of literal.
const (
	LitNull LiteralKind = iota
	LitBool
	LitInt
	LitFloat
	LitPercent  // 70% is the number 70
	LitDuration // 100ms, 1min, INTERVAL '1' MINUTE
	LitSize     // 64KiB
	LitString
	LitUnsigned // a whole number above the largest BIGINT
)

func (*Query) statement()         {}
func (*Explain) statement()       {}
func (*CreateStream) statement()  {}
func (*CreateModel) statement()   {}
func (*CreateTrigger) statement() {}
func (*CreateExport) statement()  {}
func (*CreateQuery) statement()   {}
func (*CreateContext) statement() {}
func (*Drop) statement()          {}
func (*Insert) statement()        {}
func (*Use) statement()           {}
func (*Stop) statement()          {}
func (*Suspend) statement()       {}
func (*Resume) statement()        {}
func (*Set) statement()           {}
func (*Show) statement()          {}
func (*Describe) statement()      {}

func (*Query) action()      {}
func (*Insert) action()     {}
func (*ActSample) action()  {}
func (*ActMonitor) action() {}
func (*ActRecall) action()  {}
func (*ActStop) action()    {}
func (*ActNotify) action()  {}
func (*ActWebhook) action() {}

func (*ColumnRef) expr() {}
func (*Literal) expr()   {}
func (*Param) expr()     {}
func (*Unary) expr()     {}
func (*Binary) expr()    {}
func (*Between) expr()   {}
func (*In) expr()        {}
func (*IsNull) expr()    {}
func (*Case) expr()      {}
func (*Cast) expr()      {}
func (*Call) expr()      {}
func (*Read) expr()      {}
