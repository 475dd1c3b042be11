package planpb

import (
	"errors"
	"math"

	"google.golang.org/protobuf/encoding/protowire"
)

// coder writes or reads a message. Its methods write a field if the value is not
// zero, or set the value from the field.
type coder struct {
	to     []byte // of a message that is written
	fields map[protowire.Number][]field
	reads  bool
	depth  int
	state  *state
}

// state is that of all messages in one.
type state struct{ err error }

// field is one that was read.
type field struct {
	number uint64 // of varints and of fixed numbers
	bytes  []byte
}

var (
	errForm  = errors.New("the plan that was sent cannot be read")
	errDepth = errors.New("the plan that was sent is nested too deep")
)

// mostDepth limits the nesting of messages: an operator, or an expression, is two.
const mostDepth = 2 * 4100

func (c *coder) fail(err error) {
	if c.state.err == nil {
		c.state.err = err
	}
}

// parse reads the fields of a message.
func (c *coder) parse(b []byte) {
	c.fields = map[protowire.Number][]field{}
	for len(b) > 0 {
		number, kind, n := protowire.ConsumeTag(b)
		if n < 0 {
			c.fail(errForm)
			return
		}
		b = b[n:]
		var f field
		switch kind {
		case protowire.VarintType:
			f.number, n = protowire.ConsumeVarint(b)
		case protowire.Fixed64Type:
			f.number, n = protowire.ConsumeFixed64(b)
		case protowire.BytesType:
			f.bytes, n = protowire.ConsumeBytes(b)
		default:
			n = protowire.ConsumeFieldValue(number, kind, b)
		}
		if n < 0 {
			c.fail(errForm)
			return
		}
		b = b[n:]
		c.fields[number] = append(c.fields[number], f)
	}
}

// last returns the last occurrence of the field with this number, which is the
// valid one.
func (c *coder) last(n protowire.Number) (f field, ok bool) {
	all := c.fields[n]
	if len(all) == 0 {
		return f, false
	}
	return all[len(all)-1], true
}

func (c *coder) uint(n protowire.Number, v *uint64) {
	if c.reads {
		f, _ := c.last(n)
		*v = f.number
	} else if *v != 0 {
		c.to = protowire.AppendVarint(protowire.AppendTag(c.to, n, protowire.VarintType), *v)
	}
}

func (c *coder) int64(n protowire.Number, v *int64) {
	u := protowire.EncodeZigZag(*v)
	c.uint(n, &u)
	*v = protowire.DecodeZigZag(u)
}

func (c *coder) bool(n protowire.Number, v *bool) {
	u := protowire.EncodeBool(*v)
	c.uint(n, &u)
	*v = protowire.DecodeBool(u)
}

func (c *coder) float(n protowire.Number, v *float64) {
	if c.reads {
		f, _ := c.last(n)
		*v = math.Float64frombits(f.number)
	} else if bits := math.Float64bits(*v); bits != 0 {
		c.to = protowire.AppendFixed64(protowire.AppendTag(c.to, n, protowire.Fixed64Type), bits)
	}
}

func (c *coder) text(n protowire.Number, v *string) {
	if c.reads {
		f, _ := c.last(n)
		*v = string(f.bytes)
	} else if *v != "" {
		c.to = protowire.AppendString(protowire.AppendTag(c.to, n, protowire.BytesType), *v)
	}
}

// has reports whether a message has a field.
func (c *coder) has(n protowire.Number) bool { return len(c.fields[n]) > 0 }

// message writes or reads a message in a field. A missing field is skipped when
// reading.
func (c *coder) message(n protowire.Number, code func(*coder)) {
	if !c.reads {
		c.write(n, code)
	} else if f, ok := c.last(n); ok {
		c.read(f, code)
	}
}

func (c *coder) write(n protowire.Number, code func(*coder)) {
	if c.depth == mostDepth {
		c.fail(errDepth)
	}
	if c.state.err != nil {
		return
	}
	in := &coder{depth: c.depth + 1, state: c.state}
	code(in)
	c.to = protowire.AppendBytes(protowire.AppendTag(c.to, n, protowire.BytesType), in.to)
}

func (c *coder) read(f field, code func(*coder)) {
	if c.depth == mostDepth {
		c.fail(errDepth)
	}
	if c.state.err != nil {
		return
	}
	in := &coder{reads: true, depth: c.depth + 1, state: c.state}
	in.parse(f.bytes)
	if c.state.err == nil {
		code(in)
	}
}

// list writes or reads a field of several messages.
func list[T any](c *coder, n protowire.Number, v *[]T, code func(*coder, *T)) {
	if !c.reads {
		for i := range *v {
			c.write(n, func(in *coder) { code(in, &(*v)[i]) })
		}
		return
	}
	*v = nil
	for _, f := range c.fields[n] {
		var x T
		c.read(f, func(in *coder) { code(in, &x) })
		*v = append(*v, x)
	}
}

// texts writes or reads a field of several strings.
func (c *coder) texts(n protowire.Number, v *[]string) {
	if !c.reads {
		for _, s := range *v {
			c.to = protowire.AppendString(protowire.AppendTag(c.to, n, protowire.BytesType), s)
		}
		return
	}
	*v = nil
	for _, f := range c.fields[n] {
		*v = append(*v, string(f.bytes))
	}
}

// number writes or reads a number of any kind.
func number[T ~int | ~int64 | ~uint8](c *coder, n protowire.Number, v *T) {
	i := int64(*v)
	c.int64(n, &i)
	if *v = T(i); int64(*v) != i {
		c.fail(errForm)
	}
}

// enum writes or reads a number of a list.
func enum[T ~uint8](c *coder, n protowire.Number, v *T) {
	u := uint64(*v)
	c.uint(n, &u)
	if *v = T(u); uint64(*v) != u {
		c.fail(errForm)
	}
}

// numbers writes or reads a packed field of numbers.
func (c *coder) numbers(n protowire.Number, v *[]int) {
	if !c.reads {
		var packed []byte
		for _, i := range *v {
			packed = protowire.AppendVarint(packed, protowire.EncodeZigZag(int64(i)))
		}
		c.to = protowire.AppendBytes(protowire.AppendTag(c.to, n, protowire.BytesType), packed)
		return
	}
	*v = nil
	for _, f := range c.fields[n] {
		for b := f.bytes; len(b) > 0; {
			u, size := protowire.ConsumeVarint(b)
			if size < 0 {
				c.fail(errForm)
				return
			}
			*v, b = append(*v, int(protowire.DecodeZigZag(u))), b[size:]
		}
	}
}
