package wire

import "encoding/json"

// What clients and servers say beside Flight SQL.
const (
	// SessionHeader names a call's session: what ActionSession gave. Calls
	// without are in the session of their connection.
	SessionHeader = "endoscope-session"
	// StringsHeader with StringsCoded asks for strings as codes into dictionaries
	// in the records of foreign clients.
	StringsHeader = "endoscope-strings"
	StringsCoded  = "dictionary"

	// ActionSession opens a session with SessionOptions. Its results are one
	// Hello and then a Note each time the session has something to say, or every
	// so often to show that it is there. The session ends with the action.
	ActionSession = "endoscope.session"
	// ActionAsk is for questions about a session, of which the answer is an
	// Answer.
	ActionAsk = "endoscope.ask"
	// ActionDescribe is Session.Describe of a Statement; its answer is a
	// Description.
	ActionDescribe = "endoscope.describe"
	// ActionStop and ActionClose are Result.Stop and Result.Close of the result
	// that a Statement in the action's body names; without a name, ActionClose is
	// Session.Close.
	ActionStop  = "endoscope.stop"
	ActionClose = "endoscope.close"
)

// SessionOptions are what a client says of the session that it opens: see
// Options.
type SessionOptions struct {
	PID     int    `json:"pid,omitempty"`
	Process string `json:"process,omitempty"`
	Exe     string `json:"exe,omitempty"`
	Live    int64  `json:"live,omitempty"` // ns
	Marks   bool   `json:"marks,omitempty"`
}

// Hello is the answer to SessionOptions.
type Hello struct {
	Session string `json:"session"`
	Version string `json:"version,omitempty"` // of the server
	Engine  string `json:"engine,omitempty"`  // which it is, wherever it listens; "": it does not say
}

// Note is one thing that a session says: a text for the user, that something is
// armed (Options.Armed), or nothing but that it is there.
type Note struct {
	Text  string `json:"text,omitempty"`
	Armed bool   `json:"armed,omitempty"`
}

// Question is one of Session.Complete or Session.Info (Kind is ""); of "clock" only
// the Time of the answer is wanted.
type Question struct {
	Kind   string `json:"kind,omitempty"`
	Of     string `json:"of,omitempty"`
	Prefix string `json:"prefix,omitempty"`
}

// Answer has the lines that a Question is answered with.
type Answer struct {
	Lines []string `json:"lines,omitempty"`
	Time  int64    `json:"time"` // the server's clock, ns since 1970
}

// Statement is a ticket's handle by which a client has a statement executed, and
// the name of its result.
type Statement struct {
	// Result names the result within its session; the client chooses it.
	Result string `json:"result"`
	Text   string `json:"text,omitempty"`
	// Args are the values of its parameters, as columnar.EncodeValues has them.
	Args []byte `json:"args,omitempty"`
	// Triggered asks for Session.Triggered instead: "all", or "follow".
	Triggered string `json:"triggered,omitempty"`
	// Fragments is the version of fragments of plans that the client executes; 0:
	// it executes none.
	Fragments int `json:"fragments,omitempty"`
	// Host asks for the share of the host of that name of a statement over several, and
	// Shares is the version of shares that the root executes (ShareVersion).
	Host   string `json:"host,omitempty"`
	Shares int    `json:"shares,omitempty"`
}

// Frame is the application metadata of each record of a result.
type Frame struct {
	Kind FrameKind `json:"kind"`
	// Row is how many rows the query gave before those of this record, those
	// included that were dropped because the client did not read them: the gap
	// between this and what was received is what is missing.
	Row     uint64 `json:"row,omitempty"`
	Preview bool   `json:"preview,omitempty"`
	Text    string `json:"text,omitempty"` // of a notice, or the statement's message
	Time    int64  `json:"time,omitempty"` // the server's clock, ns since 1970: of a beat
	// Watermark > 0: all rows with a time before it, ns since 1970, have been given
	// with this record and those before, or dropped.
	Watermark int64 `json:"watermark,omitempty"`
	// StartsOver, of FrameBegin: executed again the statement gives its first rows
	// again, as where it reads a file.
	StartsOver bool `json:"startsOver,omitempty"`
	// Summary is what holds until now: of beats and of the end.
	Summary *Summary `json:"summary,omitempty"`
	// Fragment is what the client executes: of the beginning.
	Fragment *Fragment `json:"fragment,omitempty"`
	// Share is what the root of several hosts does with the rows: of the beginning.
	Share *Share `json:"share,omitempty"`
	// Port is what the rows of the records from here on are: of the beginning and of
	// FrameSection.
	Port Port `json:"port,omitempty"`
	// Cue is that of FrameCue.
	Cue *Cue `json:"cue,omitempty"`
}

// FrameKind says what a record is for. All but FrameRows have no rows.
type FrameKind string

// Kinds of frame.
const (
	FrameBegin   FrameKind = "begin"   // the statement was accepted
	FrameRows    FrameKind = "rows"    //
	FrameFlush   FrameKind = "flush"   // an emitted result is complete
	FramePreview FrameKind = "preview" // so is a look at a running total
	FrameNotice  FrameKind = "notice"  //
	FrameBeat    FrameKind = "beat"    // nothing has happened, and the server is there
	FrameEnd     FrameKind = "end"     // with the final Summary; nothing follows
	// FrameSection: the records that follow are of another Port, and begin with a
	// schema of their own.
	FrameSection FrameKind = "section"
	FrameCue     FrameKind = "cue" // Event.Cue
)

// Encode gives the frame as application metadata.
func (f *Frame) Encode() []byte {
	b, err := json.Marshal(f)
	if err != nil {
		return nil // it has nothing that could not be written
	}
	return b
}

// DecodeFrame reads application metadata.
func DecodeFrame(b []byte) (f Frame, err error) {
	err = json.Unmarshal(b, &f)
	return f, err
}

// A refusal's google.rpc.ErrorInfo: its reason and domain, and the keys of its
// metadata, which are the fields of a parser.Error.
const (
	RefusalDomain = "endoscope"
	RefusalReason = "STATEMENT_REFUSED"
	RefusalMsg    = "msg"
	RefusalHint   = "hint"
	RefusalSrc    = "src" // absent: the statement
	RefusalStart  = "start"
	RefusalStop   = "stop"
	RefusalSyntax = "syntax"
)
