package wire

import "encoding/json"

// Headers and actions that extend Flight SQL.
const (
	// SessionHeader names the session of a call: the Hello.Session of ActionSession.
	// Calls without it belong to the session of their connection.
	SessionHeader = "endoscope-session"
	// StringsHeader with StringsCoded requests dictionary-encoded strings in the
	// records of foreign clients.
	StringsHeader = "endoscope-strings"
	StringsCoded  = "dictionary"

	// ActionSession opens a session with SessionOptions. Its results are one Hello
	// and then one Note for each message of the session, and at intervals as a
	// keep-alive. The session ends with the action.
	ActionSession = "endoscope.session"
	// ActionAsk sends a Question about a session; the result is an Answer.
	ActionAsk = "endoscope.ask"
	// ActionDescribe is Session.Describe of a Statement; its result is a Description.
	ActionDescribe = "endoscope.describe"
	// ActionStop and ActionClose are Result.Stop and Result.Close of the result that
	// the Statement in the action's body names. Without a name, ActionClose is
	// Session.Close.
	ActionStop  = "endoscope.stop"
	ActionClose = "endoscope.close"
)

// SessionOptions are the options of a session that a client opens; see Options.
type SessionOptions struct {
	PID     int    `json:"pid,omitempty"`
	Started bool   `json:"started,omitempty"`
	Process string `json:"process,omitempty"`
	Exe     string `json:"exe,omitempty"`
	Live    int64  `json:"live,omitempty"` // ns
	Marks   bool   `json:"marks,omitempty"`
}

// Hello is the answer to SessionOptions.
type Hello struct {
	Session string `json:"session"`
	Version string `json:"version,omitempty"` // of the server
	Engine  string `json:"engine,omitempty"`  // identifies the engine, whatever its address; "": unknown
}

// Note is a message of a session: a text for the user, that something was armed
// (Options.Armed), or, if empty, a keep-alive.
type Note struct {
	Text  string `json:"text,omitempty"`
	Armed bool   `json:"armed,omitempty"`
}

// Question asks for Session.Complete, or for Session.Info if Kind is "". With Kind
// "clock" only the Time of the answer is used.
type Question struct {
	Kind   string `json:"kind,omitempty"`
	Of     string `json:"of,omitempty"`
	Prefix string `json:"prefix,omitempty"`
}

// Answer contains the lines that answer a Question.
type Answer struct {
	Lines []string `json:"lines,omitempty"`
	Time  int64    `json:"time"` // the server's clock, ns since 1970
}

// Statement is a ticket's handle: the statement to execute, and the name of its
// result.
type Statement struct {
	// Result names the result within its session; the client chooses it.
	Result string `json:"result"`
	Text   string `json:"text,omitempty"`
	// Args are the values of the parameters, encoded by columnar.EncodeValues.
	Args []byte `json:"args,omitempty"`
	// Triggered requests Session.Triggered instead: "all" or "follow".
	Triggered string `json:"triggered,omitempty"`
	// Fragments is the version of plan fragments that the client executes; 0: none.
	Fragments int `json:"fragments,omitempty"`
	// Host asks for the share of the host of that name of a statement over several, and
	// Shares is the version of shares that the root executes (ShareVersion).
	Host   string `json:"host,omitempty"`
	Shares int    `json:"shares,omitempty"`
}

// Frame is the application metadata of each record of a result.
type Frame struct {
	Kind FrameKind `json:"kind"`
	// Row is the number of rows of the query before those of this record, including
	// rows dropped because the client did not read them. The difference from the
	// number received is the number missing.
	Row     uint64 `json:"row,omitempty"`
	Preview bool   `json:"preview,omitempty"`
	Text    string `json:"text,omitempty"` // of a notice, or the statement's message
	Time    int64  `json:"time,omitempty"` // of a beat: the server's clock, ns since 1970
	// Watermark > 0: all rows with an earlier time (ns since 1970) have been sent
	// with this record or before, or were dropped.
	Watermark int64 `json:"watermark,omitempty"`
	// StartsOver, in FrameBegin: if executed again the statement returns its first
	// rows again, as when it reads a file.
	StartsOver bool `json:"startsOver,omitempty"`
	// Summary, in beats and at the end, is the footer so far.
	Summary *Summary `json:"summary,omitempty"`
	// Fragment, in FrameBegin, is what the client executes.
	Fragment *Fragment `json:"fragment,omitempty"`
	// Share is what the root of several hosts does with the rows: of the beginning.
	Share *Share `json:"share,omitempty"`
	// Port is what the rows of the records from here on are: of the beginning and of
	// FrameSection.
	Port Port `json:"port,omitempty"`
	// Cue is the cue of FrameCue.
	Cue *Cue `json:"cue,omitempty"`
}

// FrameKind is the purpose of a record. Only FrameRows has rows.
type FrameKind string

// Kinds of frame.
const (
	FrameBegin   FrameKind = "begin" // the statement was accepted
	FrameRows    FrameKind = "rows"
	FrameFlush   FrameKind = "flush"   // an emitted result is complete
	FramePreview FrameKind = "preview" // a preview of a running total is complete
	FrameNotice  FrameKind = "notice"
	FrameBeat    FrameKind = "beat" // keep-alive
	FrameEnd     FrameKind = "end"  // with the final Summary; the last frame
	// FrameSection: the records that follow are for another Port and begin with their
	// own schema.
	FrameSection FrameKind = "section"
	FrameCue     FrameKind = "cue" // Event.Cue
)

// Encode returns the frame as application metadata.
func (f *Frame) Encode() []byte {
	b, err := json.Marshal(f)
	if err != nil {
		return nil // not reached: every field can be marshalled
	}
	return b
}

// DecodeFrame parses application metadata.
func DecodeFrame(b []byte) (f Frame, err error) {
	err = json.Unmarshal(b, &f)
	return f, err
}

// The google.rpc.ErrorInfo of a refusal: its reason and domain, and the keys of its
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
