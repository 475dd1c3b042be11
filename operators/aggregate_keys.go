package operators

import (
	"math"
	"math/bits"

	"endoscope/operators/batch"
	"endoscope/operators/expr"
	"endoscope/planner/plan"
)

// groupKey is one GROUP BY expression. All group tables of an operator share
// it: a string has one code in all windows.
type groupKey struct {
	typ     batch.Type
	program *expr.Program
	space   *codeSpace // of PhysCode and PhysAny keys

	col   *batch.Column // of the batch being pushed
	codes []uint32      // of the batch, in space, by physical row
}

func newGroupKey(e plan.Expr, in batch.Schema) (*groupKey, error) {
	p, err := expr.Compile(e, in)
	if err != nil {
		return nil, err
	}
	k := &groupKey{typ: e.Type(), program: p}
	switch k.typ.Physical() {
	case batch.PhysCode, batch.PhysAny:
		k.space = newCodeSpace()
	}
	return k, nil
}

// eval computes the key for the rows of b that count.
func (k *groupKey) eval(b *batch.Batch) error {
	col, err := k.program.Eval(b)
	if err == nil {
		k.take(col, rowsOf(b))
	}
	return err
}

// take makes col the key of these rows.
func (k *groupKey) take(col *batch.Column, rows []uint16) {
	k.col = col
	if k.space != nil {
		k.codes = k.space.translate(col, rows)
	}
}

// hasNulls reports whether the key may be NULL in this batch.
func (k *groupKey) hasNulls() bool { return len(k.col.Nulls) > 0 && k.col.Nulls.Any() }

// groupTable numbers the keys of one window (or of the query) 0, 1, 2, ... in
// order of first appearance. A NULL is a key of its own; NaNs are equal, and
// so are 0 and -0.
type groupTable interface {
	// assign puts the group of row r into groups[r], for each of rows. Rows
	// that would need more than limit groups get noGroup; it returns how many.
	assign(rows []uint16, groups []uint32, limit int) (refused int)
	len() int
	// output makes dst, which is empty, key c of the groups.
	output(c int, groups []uint32, dst *batch.Column)
	// mark sets used[code] for the strings of key c that groups have.
	mark(c int, used []bool)
	// recode changes the code of key c's strings from i to codes[i].
	recode(c int, codes []uint32)
	// reset forgets all groups and keeps memory for as many again.
	reset()
}

// noGroup is the group of a row that got none. As 1 + group is what tables
// store, it is also what follows from the 0 of "no entry".
const noGroup = math.MaxUint32

// maxKeys is how many NULL bits the key of a rowTable holds.
const maxKeys = 64

// keyScratch is what tables need while they look at one batch. The tables of
// an operator share it.
type keyScratch struct {
	row, part [batch.MaxRows]uint64
	rows      []uint64
}

// newGroupTable chooses the cheapest table that the keys' types allow.
func newGroupTable(keys []*groupKey, scratch *keyScratch) groupTable {
	width := 0
	for _, k := range keys {
		width += packedBits(k.typ)
	}
	switch {
	case len(keys) == 0:
		return oneGroup{}
	case len(keys) == 1 && keys[0].space != nil:
		return &codeTable{key: keys[0]}
	case len(keys) == 1 || width <= 64:
		return newWordTable(keys, scratch)
	}
	return newRowTable(keys, scratch)
}

// oneGroup is the table of a query without GROUP BY: its group is there before
// the first row.
type oneGroup struct{}

func (oneGroup) assign(rows []uint16, groups []uint32, _ int) int {
	for _, r := range rows {
		groups[r] = 0
	}
	return 0
}
func (oneGroup) len() int                            { return 1 }
func (oneGroup) output(int, []uint32, *batch.Column) {}
func (oneGroup) mark(int, []bool)                    {}
func (oneGroup) recode(int, []uint32)                {}
func (oneGroup) reset()                              {}

// codeTable groups by one string: an array gives the group of a code. It needs
// none as long as codes come in the order 0, 1, 2, ..., as they do from a
// source whose rows all reach the aggregate: then the code is the group.
type codeTable struct {
	key    *groupKey
	byCode []uint32 // 1 + group; 0: none; nil: the code is the group
	null   uint32   // 1 + group of NULL; 0: none
	codes  []uint32 // of each group; noCode for NULL
}

const noCode = math.MaxUint32

func (t *codeTable) assign(rows []uint16, groups []uint32, limit int) (refused int) {
	if t.byCode == nil {
		rows = t.assignSame(rows, groups, limit)
		if len(rows) == 0 {
			return 0
		}
	}
	t.byCode = extended(t.byCode, t.key.space.size())
	if t.key.hasNulls() {
		return t.assignNulls(rows, groups, limit)
	}
	byCode, codes := t.byCode, t.key.codes
	for _, r := range rows {
		g := byCode[codes[r]]
		if g == 0 {
			if g = t.add(codes[r], limit); g == 0 {
				refused++
			}
			byCode[codes[r]] = g
		}
		groups[r] = g - 1
	}
	return refused
}

// assignSame takes codes for groups as far as that goes. It returns the rows
// from the first on that needs byCode, which it makes then.
func (t *codeTable) assignSame(rows []uint16, groups []uint32, limit int) (rest []uint16) {
	codes := t.key.codes
	if !t.key.hasNulls() {
		n := uint32(len(t.codes))
		i := 0
		for ; i < len(rows); i++ {
			c := codes[rows[i]]
			if c >= n {
				if c != n || int(n) >= limit {
					break
				}
				t.codes = append(t.codes, c)
				n++
			}
			groups[rows[i]] = c
		}
		if rows = rows[i:]; len(rows) == 0 {
			return nil
		}
	}
	t.byCode = make([]uint32, t.key.space.size())
	for g, c := range t.codes {
		t.byCode[c] = uint32(g) + 1
	}
	return rows
}

func (t *codeTable) assignNulls(rows []uint16, groups []uint32, limit int) (refused int) {
	for _, r := range rows {
		g, c := &t.null, uint32(noCode)
		if !t.key.col.Nulls.Get(int(r)) {
			c = t.key.codes[r]
			g = &t.byCode[c]
		}
		if *g == 0 {
			if *g = t.add(c, limit); *g == 0 {
				refused++
			}
		}
		groups[r] = *g - 1
	}
	return refused
}

func (t *codeTable) add(code uint32, limit int) uint32 {
	if len(t.codes) >= limit {
		return 0
	}
	t.codes = append(t.codes, code)
	return uint32(len(t.codes))
}

func (t *codeTable) len() int { return len(t.codes) }

func (t *codeTable) output(_ int, groups []uint32, dst *batch.Column) {
	t.key.space.bind(dst)
	for i, g := range groups {
		c := t.codes[g]
		if c == noCode {
			dst.Nulls.Set(i)
		}
		t.key.space.output(c, dst)
	}
}

func (t *codeTable) mark(_ int, used []bool) {
	for _, c := range t.codes {
		if c != noCode {
			used[c] = true
		}
	}
}

func (t *codeTable) recode(_ int, codes []uint32) {
	t.byCode = make([]uint32, t.key.space.size())
	for g, c := range t.codes {
		if c != noCode {
			t.codes[g] = codes[c]
			t.byCode[codes[c]] = uint32(g) + 1
		}
	}
}

func (t *codeTable) reset() {
	for _, c := range t.codes {
		if c != noCode && t.byCode != nil {
			t.byCode[c] = 0
		}
	}
	t.null, t.codes = 0, t.codes[:0]
}

// packedBits is how many bits a key takes when several are packed into one
// word, where 0 is NULL and other values count from 1. More than 64 if it
// cannot be packed.
func packedBits(t batch.Type) int {
	switch t.Physical() {
	case batch.PhysCode, batch.PhysAny:
		return 32
	case batch.PhysBool:
		return 2
	}
	return 65
}

// words puts the key at each of rows, as a number, at dst[stride*row]. What it
// puts for a NULL means nothing.
func (k *groupKey) words(rows []uint16, dst []uint64, stride int) {
	switch k.typ.Physical() {
	case batch.PhysInt:
		for _, r := range rows {
			dst[int(r)*stride] = uint64(k.col.Int[r])
		}
	case batch.PhysFloat:
		for _, r := range rows {
			dst[int(r)*stride] = canonicalBits(k.col.Float[r])
		}
	case batch.PhysBool:
		for _, r := range rows {
			dst[int(r)*stride] = 0
			if k.col.Bool[r] {
				dst[int(r)*stride] = 1
			}
		}
	default:
		for _, r := range rows {
			dst[int(r)*stride] = uint64(k.codes[r])
		}
	}
}

// output appends the key that is word w to dst, which has n rows.
func (k *groupKey) output(n int, w uint64, null bool, dst *batch.Column) {
	if null {
		dst.Nulls.Set(n)
		w = 0
	}
	switch k.typ.Physical() {
	case batch.PhysInt:
		dst.Int = append(dst.Int, int64(w))
	case batch.PhysFloat:
		dst.Float = append(dst.Float, math.Float64frombits(w))
	case batch.PhysBool:
		dst.Bool = append(dst.Bool, w == 1)
	default:
		c := uint32(w)
		if null {
			c = noCode
		}
		k.space.output(c, dst)
	}
}

// wordTable groups by what fits one 64-bit word: one number, or a few strings
// and booleans packed. Its slots hold the word, so that finding a group
// touches one place in memory.
type wordTable struct {
	keys   []*groupKey
	packed bool     // else one key, whose NULL is beside the table
	null   uint32   // 1 + group of that NULL; 0: none
	words  []uint64 // of each group
	slots  []wordSlot
	*keyScratch
}

type wordSlot struct {
	word  uint64
	group uint32 // 1 + group; 0: free
}

const minGroupSlots = 32

func newWordTable(keys []*groupKey, scratch *keyScratch) *wordTable {
	return &wordTable{keys: keys, packed: packedBits(keys[0].typ) <= 64,
		slots: make([]wordSlot, minGroupSlots), keyScratch: scratch}
}

func (t *wordTable) assign(rows []uint16, groups []uint32, limit int) (refused int) {
	if t.packed {
		t.pack(rows)
	} else {
		t.keys[0].words(rows, t.row[:], 1)
		if t.keys[0].hasNulls() {
			return t.assignNulls(rows, groups, limit)
		}
	}
	for _, r := range rows {
		w := t.row[r]
		// Nearly always the group is where it belongs; the loop is short, so
		// that the processor overlaps the misses of many rows.
		s := &t.slots[hashWord(w)&uint64(len(t.slots)-1)]
		g := s.group
		if s.word != w || g == 0 {
			if g = t.find(w, limit); g == 0 {
				refused++
			}
		}
		groups[r] = g - 1
	}
	return refused
}

func (t *wordTable) assignNulls(rows []uint16, groups []uint32, limit int) (refused int) {
	nulls := t.keys[0].col.Nulls
	for _, r := range rows {
		var g uint32
		switch {
		case !nulls.Get(int(r)):
			g = t.find(t.row[r], limit)
		case t.null == 0 && len(t.words) < limit:
			t.words = append(t.words, 0)
			t.null = uint32(len(t.words))
			fallthrough
		default:
			g = t.null
		}
		if g == 0 {
			refused++
		}
		groups[r] = g - 1
	}
	return refused
}

// pack computes the word of each row.
func (t *wordTable) pack(rows []uint16) {
	shift := 0
	for i, k := range t.keys {
		dst := t.part[:]
		if i == 0 {
			dst = t.row[:]
		}
		k.words(rows, dst, 1)
		nulls := k.hasNulls()
		for _, r := range rows {
			dst[r]++
			if nulls && k.col.Nulls.Get(int(r)) {
				dst[r] = 0
			}
		}
		if i > 0 {
			for _, r := range rows {
				t.row[r] |= t.part[r] << shift
			}
		}
		shift += packedBits(k.typ)
	}
}

// find returns 1 + the group of w, 0 if that would be one too many.
func (t *wordTable) find(w uint64, limit int) uint32 {
	for h := hashWord(w); ; h++ {
		s := &t.slots[h&uint64(len(t.slots)-1)]
		switch {
		case s.group != 0 && s.word == w:
			return s.group
		case s.group != 0:
			continue
		case len(t.words) >= limit:
			return 0
		}
		t.words = append(t.words, w)
		g := uint32(len(t.words))
		*s = wordSlot{w, g}
		if 2*len(t.words) > len(t.slots) {
			t.rehash(4 * len(t.slots))
		}
		return g
	}
}

// rehash makes a table of n slots for the groups there are.
func (t *wordTable) rehash(n int) {
	t.slots = make([]wordSlot, n)
	for i, w := range t.words {
		if uint32(i)+1 == t.null {
			continue
		}
		h := hashWord(w)
		for t.slots[h&uint64(n-1)].group != 0 {
			h++
		}
		t.slots[h&uint64(n-1)] = wordSlot{w, uint32(i) + 1}
	}
}

func (t *wordTable) len() int { return len(t.words) }

func (t *wordTable) output(c int, groups []uint32, dst *batch.Column) {
	k := t.keys[c]
	if k.space != nil {
		k.space.bind(dst)
	}
	shift, mask := t.place(c)
	for i, g := range groups {
		if t.packed {
			w := t.words[g] >> shift & mask
			k.output(i, w-1, w == 0, dst)
		} else {
			k.output(i, t.words[g], g+1 == t.null, dst)
		}
	}
}

// place says where key c lies in a packed word.
func (t *wordTable) place(c int) (shift int, mask uint64) {
	for _, k := range t.keys[:c] {
		shift += packedBits(k.typ)
	}
	return shift, 1<<packedBits(t.keys[c].typ) - 1
}

func (t *wordTable) mark(c int, used []bool) {
	shift, mask := t.place(c)
	for _, w := range t.words {
		if w = w >> shift & mask; w != 0 {
			used[w-1] = true
		}
	}
}

func (t *wordTable) recode(c int, codes []uint32) {
	shift, mask := t.place(c)
	for i, w := range t.words {
		if old := w >> shift & mask; old != 0 {
			t.words[i] = w&^(mask<<shift) | (uint64(codes[old-1])+1)<<shift
		}
	}
	t.rehash(len(t.slots))
}

func (t *wordTable) reset() {
	if len(t.slots) > 64*len(t.words) && len(t.slots) > minGroupSlots {
		// It was large once; clearing that much for every window would cost
		// more than growing again.
		t.slots = make([]wordSlot, minGroupSlots)
	}
	clear(t.slots)
	t.null, t.words = 0, t.words[:0]
}

// rowTable groups by any number of keys. A group's key is a row of words: one
// with a bit for each key that is NULL, then one for each key.
type rowTable struct {
	keys  []*groupKey
	width int
	words []uint64 // of group g at g*width
	slots []uint64 // hash in the upper half, 1 + group in the lower; 0: free
	n     int
	*keyScratch
}

func newRowTable(keys []*groupKey, scratch *keyScratch) *rowTable {
	w := 1 + len(keys)
	scratch.rows = extended(scratch.rows, w*batch.MaxRows)
	return &rowTable{keys: keys, width: w, slots: make([]uint64, minGroupSlots), keyScratch: scratch}
}

func (t *rowTable) assign(rows []uint16, groups []uint32, limit int) (refused int) {
	t.fill(rows)
	for _, r := range rows {
		g := t.find(t.rows[int(r)*t.width:][:t.width], t.row[r], limit)
		if g == 0 {
			refused++
		}
		groups[r] = g - 1
	}
	return refused
}

// fill computes the words and hashes of rows, column by column.
func (t *rowTable) fill(rows []uint16) {
	for _, r := range rows {
		t.rows[int(r)*t.width] = 0
	}
	for i, k := range t.keys {
		k.words(rows, t.rows[1+i:], t.width)
		if !k.hasNulls() {
			continue
		}
		for _, r := range rows {
			if k.col.Nulls.Get(int(r)) {
				t.rows[int(r)*t.width] |= 1 << i
				t.rows[int(r)*t.width+1+i] = 0
			}
		}
	}
	for _, r := range rows {
		t.row[r] = hashRow(t.rows[int(r)*t.width:][:t.width])
	}
}

func (t *rowTable) find(key []uint64, h uint64, limit int) uint32 {
	tag := h >> 32
	for ; ; h++ {
		s := &t.slots[h&uint64(len(t.slots)-1)]
		switch {
		case *s == 0 && t.n >= limit:
			return 0
		case *s == 0:
			t.n++
			*s = tag<<32 | uint64(t.n)
			t.words = append(t.words, key...)
			if g := uint32(t.n); 2*t.n > len(t.slots) {
				t.rehash(4 * len(t.slots))
				return g
			}
			return uint32(t.n)
		case *s>>32 == tag && equalWords(t.words[(int(uint32(*s))-1)*t.width:], key):
			return uint32(*s)
		}
	}
}

func equalWords(have, key []uint64) bool {
	for i, w := range key {
		if have[i] != w {
			return false
		}
	}
	return true
}

func (t *rowTable) rehash(n int) {
	t.slots = make([]uint64, n)
	for g := range t.n {
		h := hashRow(t.words[g*t.width:][:t.width])
		tag := h >> 32
		for t.slots[h&uint64(n-1)] != 0 {
			h++
		}
		t.slots[h&uint64(n-1)] = tag<<32 | uint64(g+1)
	}
}

func (t *rowTable) len() int { return t.n }

func (t *rowTable) output(c int, groups []uint32, dst *batch.Column) {
	k := t.keys[c]
	if k.space != nil {
		k.space.bind(dst)
	}
	for i, g := range groups {
		at := int(g) * t.width
		k.output(i, t.words[at+1+c], t.words[at]>>c&1 != 0, dst)
	}
}

func (t *rowTable) mark(c int, used []bool) {
	for at := 0; at < len(t.words); at += t.width {
		if t.words[at]>>c&1 == 0 {
			used[t.words[at+1+c]] = true
		}
	}
}

func (t *rowTable) recode(c int, codes []uint32) {
	for at := 0; at < len(t.words); at += t.width {
		if t.words[at]>>c&1 == 0 {
			t.words[at+1+c] = uint64(codes[t.words[at+1+c]])
		}
	}
	t.rehash(len(t.slots))
}

func (t *rowTable) reset() {
	if len(t.slots) > 64*t.n && len(t.slots) > minGroupSlots {
		t.slots = make([]uint64, minGroupSlots)
	}
	clear(t.slots)
	t.n, t.words = 0, t.words[:0]
}

// hashWord spreads the bits of w over 64; both halves of the result are good.
func hashWord(w uint64) uint64 {
	hi, lo := bits.Mul64(w^hashSeed, 0x9e3779b97f4a7c15)
	return hi ^ lo
}

func hashRow(words []uint64) uint64 {
	h := uint64(0)
	for _, w := range words {
		hi, lo := bits.Mul64(w^hashSeed^h, 0x9e3779b97f4a7c15)
		h = hi ^ lo
	}
	return h
}
