package encoders

// Selection picks, out of the calls of a program, those that concern objects of
// interest, and makes a sequence of each object: of class, or of a library
// ("FILE*"). An object is an address from its birth to its death; addresses are
// used again, and every birth is that of a new object.
//
// What a function has to do with objects its roles say. For the methods of a
// class the object is argument 0:
//
//	Stack::Stack   argument 0  Birth
//	Stack::push    argument 0  Use
//	Stack::~Stack  argument 0  Death
//
// and for a library each function has its own:
//
//	fopen          result      Birth
//	fprintf        argument 0  Use
//	fread, fwrite  argument 3  Use
//	fclose         argument 0  Death
//
// It follows all threads at once.
type Selection struct {
	roles map[Symbol][]Role
	scope Scope
	begin func() Encoder
	// alive are the objects by address, all those of order that were born and
	// did not die.
	alive   map[uint64]*object
	objects []*object
	threads map[int64]*[]activation

	limits     Limits
	held       int64
	full       bool
	unfollowed int64
}

// Role says what a function does with one of its arguments, or its result.
type Role struct {
	Kind     RoleKind
	Argument int // from 0; Result: what the function returns
}

// Result as the argument of a Role is what the function returns.
const Result = -1

// RoleKind is what a function does with an object.
type RoleKind uint8

// Kinds of roles.
const (
	Use   RoleKind = iota // of an object that was born
	Birth                 // the address is that of a new object
	Death                 // the object is none any more when the function returns
)

// Scope says which calls belong to the sequence of an object.
type Scope uint8

const (
	// Calls of functions with a role for the object, and their returns.
	External Scope = iota
	// Inner are these and all that they call.
	Inner
)

type object struct {
	encoder Encoder
	address uint64
}

// activation is a call that has not returned.
type activation struct {
	function Symbol
	of       []*object // whose sequences have it
	dies     *object
	born     bool // a role gives birth to the result
}

// NewSelection selects by roles; begin makes the encoder of an object. When all
// together hold more than the budget they stop where they are, and objects that
// are born later are counted only.
func NewSelection(roles map[Symbol][]Role, scope Scope, l Limits, begin func() Encoder) *Selection {
	return &Selection{roles: roles, scope: scope, begin: begin, limits: l, alive: map[uint64]*object{}, threads: map[int64]*[]activation{}}
}

// Enter notes a call of function by a thread, with its arguments, at a moment.
func (s *Selection) Enter(thread int64, function Symbol, arguments []uint64, at int64) {
	stack := s.threads[thread]
	if stack == nil {
		stack = &[]activation{}
		s.threads[thread] = stack
	}
	a := activation{function: function}
	if n := len(*stack); n > 0 && s.scope == Inner {
		a.of = append(a.of, (*stack)[n-1].of...)
	}
	for _, role := range s.roles[function] {
		if role.Argument == Result {
			a.born = a.born || role.Kind == Birth
			continue
		}
		if role.Argument >= len(arguments) {
			continue
		}
		address := arguments[role.Argument]
		// A constructor calls those of its base classes with the same address,
		// and a destructor theirs.
		within := s.within(*stack, function, address, role.Kind)
		if role.Kind == Birth && !within {
			s.birth(address)
		}
		o := s.alive[address]
		if o == nil {
			continue
		}
		if !contains(a.of, o) {
			a.of = append(a.of, o)
		}
		if role.Kind == Death && !within {
			a.dies = o
		}
	}
	for _, o := range a.of {
		s.append(o, function, at)
	}
	*stack = append(*stack, a)
}

// within reports whether a birth or death of what lives at the address goes on
// in the thread already.
func (s *Selection) within(stack []activation, function Symbol, address uint64, kind RoleKind) bool {
	o := s.alive[address]
	if o == nil || kind == Use {
		return false
	}
	for _, a := range stack {
		if a.function == function || !contains(a.of, o) {
			continue
		}
		for _, role := range s.roles[a.function] {
			if role.Kind == kind && role.Argument != Result {
				return true
			}
		}
	}
	return false
}

// Leave notes that the thread's last call returned.
func (s *Selection) Leave(thread int64, result uint64, at int64) {
	stack := s.threads[thread]
	if stack == nil || len(*stack) == 0 {
		return
	}
	a := (*stack)[len(*stack)-1]
	*stack = (*stack)[:len(*stack)-1]
	if a.born && result != 0 {
		if o := s.birth(result); o != nil {
			s.append(o, a.function, at)
			a.of = append(a.of, o)
		}
	}
	for _, o := range a.of {
		s.append(o, Return, at)
	}
	if a.dies != nil && s.alive[a.dies.address] == a.dies {
		delete(s.alive, a.dies.address)
	}
}

// birth makes an object; nil: there is no room for it.
func (s *Selection) birth(address uint64) *object {
	delete(s.alive, address)
	if s.full {
		s.unfollowed++
		return nil
	}
	o := &object{encoder: s.begin(), address: address}
	s.alive[address] = o
	s.objects = append(s.objects, o)
	s.hold(objectBytes + o.encoder.Bytes())
	return o
}

// objectBytes is about what an object takes besides its encoder.
const objectBytes = 150

func (s *Selection) append(o *object, symbol Symbol, at int64) {
	before := o.encoder.Bytes()
	o.encoder.Append([]Symbol{symbol}, []int64{at})
	s.hold(o.encoder.Bytes() - before)
}

// hold counts memory, and freezes all when it is used up.
func (s *Selection) hold(bytes int64) {
	s.held += bytes
	if s.full || s.limits.Budget <= 0 || s.held <= s.limits.Budget {
		return
	}
	s.full = true
	for _, o := range s.objects {
		o.encoder.Freeze()
	}
}

func contains(objects []*object, o *object) bool {
	for _, have := range objects {
		if have == o {
			return true
		}
	}
	return false
}

// Unfollowed is how many objects were born when the budget was used up: they
// have no sequences.
func (s *Selection) Unfollowed() int64 { return s.unfollowed }

// Finish ends the selection and gives the encodings of all objects, in the
// order of their births. The sequences of those that live are cut.
func (s *Selection) Finish() []Encoding {
	encodings := make([]Encoding, len(s.objects))
	for i, o := range s.objects {
		if s.alive[o.address] == o {
			o.encoder.Truncate()
		}
		encodings[i] = o.encoder.Encode()
	}
	return encodings
}
