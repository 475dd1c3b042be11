package consistency

// Category is the category of an entity.
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

// String returns the spelling used in streams.
func (c Category) String() string { return categoryNames[c] }

// Kind is the kind of an event.
type Kind uint8

// Kinds of events. Create to Leave and Ended are entity events, the others are activity
// events. Enter and Leave are the creation and the end of an invocation. Ended is an end at
// an unknown time.
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
	Move // of an object: its identity entity_id becomes other_id
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

// String returns the spelling used in streams.
func (k Kind) String() string { return kindNames[k] }

// ParseCategory and ParseKind parse the output of String; ok is false for anything else.
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

// synchronises reports whether rule 5 applies to the kind.
func (k Kind) synchronises() bool { return k >= Acquire && k <= EndWait }

// endsLock reports whether after e a thread's use of a lock is unknown.
func (e *Event) endsLock() bool { return e.Kind == Ended && e.Category == None }

// Unknown stands for an entity that cannot be identified.
const Unknown = "UNKNOWN"

// Event is one event of a program. An identity "" means no entity.
type Event struct {
	Seq      uint64 // its number in the stream, from 1, set by the keeper; 0: not from the stream
	Time     int64  // ns since the epoch
	Category Category
	Kind     Kind
	Entity   string // identity of the subject
	Parent   string // TYPE: its super type; INVOCATION: its caller ("": the innermost on its thread); THREAD, OBJECT: its creator
	Other    string // the receiver of an invocation, the object referred to, a new identity
	Thread   string // identity of the thread on which it happened
	TypeName string // type of an object, or the type that declares the invoked method
	Name     string // of a type: equals TypeName
	// Past marks an event that happened earlier, at an unknown time, and arrives now. If it
	// is selected, its report is marked as catching up.
	Past  bool
	Value any // opaque, passed through for the caller
}

// Report is a reported event.
type Report struct {
	Event         // as it happened, except identities that are no longer known
	At      int64 // time of the report; never decreases
	CatchUp bool  // it was not selected, but selected events need it
}
