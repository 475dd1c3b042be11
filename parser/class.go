package parser

import "strings"

// Class describes the effect of executing a statement. It is derived from the tree, so
// comments, spaces and letter case of the text do not matter.
type Class struct {
	// Kind names the statement: "SELECT", "DROP TRIGGER", "EXPLAIN ANALYZE".
	Kind string
	// Reads: it only returns rows, and may be executed again.
	Reads bool
	// Changes: it changes definitions, or how queries run.
	Changes bool
	// Session is not empty if the statement sets a property of the session. A later
	// statement with the same Session sets the same property.
	Session string
}

// Classify returns the class of a statement.
func Classify(s Statement) Class {
	switch s := s.(type) {
	case *Query:
		return Class{Kind: "SELECT", Reads: true}
	case *Explain:
		if s.Analyze {
			return Class{Kind: "EXPLAIN ANALYZE", Reads: true}
		}
		return Class{Kind: "EXPLAIN", Reads: true}
	case *Show:
		return Class{Kind: "SHOW " + s.What, Reads: true}
	case *Describe:
		return Class{Kind: "DESCRIBE", Reads: true}
	case *Insert: // its writing is audited as that of a query
		return Class{Kind: "INSERT"}
	case *CreateStream:
		return Class{Kind: "CREATE STREAM", Changes: true}
	case *CreateModel:
		return Class{Kind: "CREATE MODEL", Changes: true}
	case *CreateTrigger:
		return Class{Kind: "CREATE TRIGGER", Changes: true}
	case *CreateExport:
		return Class{Kind: "CREATE EXPORT", Changes: true}
	case *CreateQuery:
		return Class{Kind: "CREATE QUERY", Changes: true}
	case *CreateContext:
		return Class{Kind: "CREATE CONTEXT", Changes: true}
	case *Drop:
		return Class{Kind: "DROP " + s.Kind, Changes: true}
	case *Stop:
		return Class{Kind: "STOP", Changes: true}
	case *Suspend:
		return Class{Kind: "SUSPEND", Changes: true, Session: reporting(s.Thread)}
	case *Resume:
		return Class{Kind: "RESUME", Changes: true, Session: reporting(s.Thread)}
	case *Use:
		return Class{Kind: "USE", Session: "target"}
	case *Set:
		return Class{Kind: "SET", Session: "setting " + strings.ToLower(s.Key.Name)}
	}
	return Class{}
}

// reporting returns the property that SUSPEND and RESUME set: whether a thread is reported,
// or, with nil, whether anything is.
func reporting(thread *Literal) string {
	if thread == nil {
		return "reporting"
	}
	return "reporting of thread " + thread.Str
}
