package encoders

// Symbol is one symbol of an [Alphabet]. Symbols of different alphabets mean
// different things.
type Symbol = uint32

const (
	// Return is the symbol of a return in a call string. Every alphabet has it; its name is
	// "<".
	Return Symbol = 0
	// End marks the end of a sequence. It is a symbol of no alphabet.
	End Symbol = 1<<32 - 1
)

// returnName is the text form of Return.
const returnName = "<"

// Alphabet maps names to small consecutive symbols. It only grows. One goroutine adds
// names; the results of Names, and the encodings that hold them, may be read concurrently.
type Alphabet struct {
	List    []string
	hashes  []uint64 // of the names, for digests
	symbols map[string]Symbol
	// less is the symbol of a function named "<", which differs from Return.
	less Symbol
}

// NewAlphabet returns an alphabet that holds only Return.
func NewAlphabet() *Alphabet {
	return &Alphabet{
		List: []string{returnName}, hashes: []uint64{NameHash(Return, returnName)},
		symbols: map[string]Symbol{returnName: Return},
	}
}

// AlphabetOf returns an alphabet whose symbol s is called names[s].
func AlphabetOf(names []string) *Alphabet {
	a := NewAlphabet()
	for _, name := range names[1:] {
		a.Function(name)
	}
	return a
}

// Symbol returns the symbol of the token name and adds it if it is new. The token "<" is
// Return.
func (a *Alphabet) Symbol(name string) Symbol {
	if s, ok := a.symbols[name]; ok {
		return s
	}
	s := a.add(name)
	a.symbols[a.List[s]] = s
	return s
}

// Function returns the symbol of the function name, which is never Return. For any name
// except "<" it is the symbol of the token of that name.
func (a *Alphabet) Function(name string) Symbol {
	if name != returnName {
		return a.Symbol(name)
	}
	if a.less == 0 {
		a.less = a.add(name)
	}
	return a.less
}

func (a *Alphabet) add(name string) Symbol {
	s := Symbol(len(a.List))
	a.List = append(a.List, name)
	a.hashes = append(a.hashes, NameHash(s, name))
	return s
}

// Len returns the number of symbols; they are 0 to Len()-1.
func (a *Alphabet) Len() int { return len(a.List) }

// Names returns the names of the current symbols: symbol s is called Names()[s]. The caller
// must not change the slice; later additions do not appear in it.
func (a *Alphabet) Names() []string { return a.List[:len(a.List):len(a.List)] }

// Translate maps the symbols of another alphabet with these names to those of a: symbol s
// of the other alphabet is Translate(names)[s] here.
func (a *Alphabet) Translate(names []string) []Symbol {
	symbols := make([]Symbol, len(names))
	for s, name := range names {
		if s == int(Return) {
			continue // in every alphabet
		}
		symbols[s] = a.Function(name)
	}
	return symbols
}

// NameHash returns the FNV-1a hash of a symbol's name. It distinguishes Return from a
// function named "<".
func NameHash(s Symbol, name string) uint64 {
	h := uint64(14695981039346656037)
	if s == Return {
		h++
	}
	for i := range len(name) {
		h = (h ^ uint64(name[i])) * 1099511628211
	}
	return h
}
