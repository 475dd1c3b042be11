package consistency

// Category says what an entity is.
type Category uint8

// Categories of entities. Activity events have none.
const (
	None Category = iota
	Type
	Object
	Thread
	Invocation
	categories
)

var categoryNames = [...]string{"", "TYPE", "OBJECT", "THREAD", "INVOCATION"}

// String is how streams spell it.
func (c Category) String() string { return categoryNames[c] }

// Kind says what happened.
type Kind uint8

// Kinds of events. Create to Leave and Ended are entity events, the others are
// activity events. Enter and Leave are the creation and the end of an invocation.
// Ended is an end of which only is known that it has happened.
const (
	Invalid Kind = iota
	Create
	Load
	Rename
	Reclaim
	Enter
	Leave
	Ended
	Reference
	Move // of an object: entity_id is from now on other_id
	Acquire
	Release
	BeginWait
	EndWait
	Suspend
	Resume
	kinds
)

var kindNames = [...]string{"", "CREATE", "LOAD", "RENAME", "RECLAIM", "ENTER", "LEAVE", "UNKNOWN",
	"REFERENCE", "MOVE", "ACQUIRE", "RELEASE", "BEGIN_WAIT", "END_WAIT", "SUSPEND", "RESUME"}

// String is how streams spell it.
func (k Kind) String() string { return kindNames[k] }

// ParseCategory and ParseKind read what String writes; ok is false for anything
// else.
func ParseCategory(s string) (c Category, ok bool) {
	for c = range categories {
		if categoryNames[c] == s {
			return c, true
		}
	}
	return None, false
}

func ParseKind(s string) (k Kind, ok bool) {
	for k = Create; k < kinds; k++ {
		if kindNames[k] == s {
			return k, true
		}
	}
	return Invalid, false
}

// Creates and Ends report whether events of this kind begin or end an entity.
func (k Kind) Creates() bool { return k == Create || k == Enter }
func (k Kind) Ends() bool    { return k == Reclaim || k == Leave || k == Ended }

// synchronises reports whether rule 5 is about it.
func (k Kind) synchronises() bool { return k >= Acquire && k <= EndWait }

// endsLock reports whether e says that nothing is known any more of what its thread
// does to a lock.
func (e *Event) endsLock() bool { return e.Kind == Ended && e.Category == None }

// Unknown stands for an entity of which it is not known which one it is.
const Unknown = "UNKNOWN"

// Event is one event of a program. "" is no entity.
type Event struct {
	Seq      uint64 // its number in the stream, from 1 on, which the keeper gives; 0: it was not in the stream
	Time     int64  // ns since the epoch
	Category Category
	Kind     Kind
	Entity   string // identity of what the event is about
	Parent   string // TYPE: its super type; INVOCATION: in which it was made ("": the last on its thread that has not left); THREAD, OBJECT: what made it
	Other    string // the receiver of an invocation, the object referred to, a new identity
	Thread   string // identity of the thread on which it happened
	TypeName string // name of the type of an object, or of that which declares what is invoked
	Name     string // of a type: what TypeName says
	// Past: it has happened before, nobody knows when, and is told of now: whoever has
	// selected it is told that it catches up.
	Past  bool
	Value any // the caller's, handed through
}

// Report is an event that is reported.
type Report struct {
	Event         // as it was, but for identities that are not known any more
	At      int64 // when it is reported; never less than before
	CatchUp bool  // it was not selected, but others that are need it
}
