package encoders

// Symbol is one symbol of an [Alphabet]. Symbols of different alphabets mean
// different things.
type Symbol = uint32

const (
	// Return is the symbol that a call string has where a call returns. Every
	// alphabet has it; its name is "<".
	Return Symbol = 0
	// End is no alphabet's symbol: the mark behind the last symbol of a
	// sequence.
	End Symbol = 1<<32 - 1
)

// returnName is how Return is written.
const returnName = "<"

// Alphabet gives names small consecutive symbols. It only grows. One goroutine
// adds names; what it has handed out (Names, and the encodings that hold it)
// may be read by others meanwhile.
type Alphabet struct {
	List    []string
	hashes  []uint64 // of the names, for digests
	symbols map[string]Symbol
	// less is the symbol of a function that is called "<", which is not Return.
	less Symbol
}

// NewAlphabet returns an alphabet that has only Return.
func NewAlphabet() *Alphabet {
	return &Alphabet{
		List: []string{returnName}, hashes: []uint64{NameHash(Return, returnName)},
		symbols: map[string]Symbol{returnName: Return},
	}
}

// AlphabetOf has the symbols that names belong to.
func AlphabetOf(names []string) *Alphabet {
	a := NewAlphabet()
	for _, name := range names[1:] {
		a.Function(name)
	}
	return a
}

// Symbol is the symbol of the token name, a new one if need be. The token "<"
// is Return.
func (a *Alphabet) Symbol(name string) Symbol {
	if s, ok := a.symbols[name]; ok {
		return s
	}
	s := a.add(name)
	a.symbols[a.List[s]] = s
	return s
}

// Function is the symbol of the function name, which is never Return. It is
// that of the same token, but for "<".
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

// Len is the number of symbols; they are 0 to Len()-1.
func (a *Alphabet) Len() int { return len(a.List) }

// Names is the alphabet as it stands: symbol s is called Names()[s]. The slice
// must not be changed; later additions do not show in it.
func (a *Alphabet) Names() []string { return a.List[:len(a.List):len(a.List)] }

// Translate maps the symbols of another alphabet, which names belongs to, to
// those of a: symbol s of the other is Translate(names)[s] here.
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

// NameHash is FNV-1a of a symbol's name, and tells Return from a function that
// is called "<".
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
