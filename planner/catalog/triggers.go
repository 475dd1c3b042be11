package catalog

// TriggerStream is the name by which plans acquire the stream of a trigger; its
// argument is the trigger's name.
const TriggerStream = "trigger"

// StandingStream is the name by which plans acquire the result of a standing query; its
// arguments are the query's qualified name, whether only final rows are read, and whether
// only those that are stored from now on. Its columns are the query's.
const StandingStream = "standing"

// Trigger is the schema of every trigger's stream. It is not listed among Streams:
// users name the trigger, not this stream.
var Trigger = &Stream{Name: TriggerStream, Kind: Enumerable, Columns: []Column{
	{"timestamp", tT, "", "when it happened: the time of the tuple, or of what an action acquired"},
	{"activation", tI, "", "number of the activation that began the action, from 1"},
	{"action", tS, "", "the action, as it is printed"},
	{"row", tS, "", "what the action acquired, as JSON; else the tuple that satisfied the condition"},
}}
