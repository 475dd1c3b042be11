package columnar

import (
	"errors"

	flatbuffers "github.com/google/flatbuffers/go"
)

// Fields of Arrow's messages, as offsets in their vtables (format/Message.fbs,
// format/Schema.fbs), and kinds of messages.
const (
	messageKind      = 6  // Message.header_type
	messageHeader    = 8  // Message.header
	messageMetadata  = 12 // Message.custom_metadata
	schemaFields     = 6  // Schema.fields
	schemaMetadata   = 8  // Schema.custom_metadata
	schemaFeatures   = 10 // Schema.features
	fieldType        = 10 // Field.type
	fieldChildren    = 14 // Field.children
	fieldMetadata    = 16 // Field.custom_metadata
	unionTypeIDs     = 6  // Union.typeIds
	dictionaryRecord = 6  // DictionaryBatch.data
	recordNodes      = 6  // RecordBatch.nodes
	recordBuffers    = 8  // RecordBatch.buffers
	recordCompressed = 10 // RecordBatch.compression
	recordVariadic   = 12 // RecordBatch.variadicBufferCounts

	fieldTypeKind = 8  // Field.type_type
	typeUnion     = 14 // of it

	kindSchema     = 1
	kindDictionary = 2
	kindRecord     = 3
)

// Limits of a schema. In a hostile one several fields may share one list of children.
const (
	maxFields = 1 << 14
	maxDepth  = 32
)

var (
	errHeader     = errors.New("the header of a record is damaged")
	errCompressed = errors.New("the record is compressed")
)

// CheckHeader returns an error if the header of a message has lists longer than
// itself, or is that of a compressed record: arrow-go allocates what they say,
// whatever the size of the message.
func CheckHeader(header []byte) (err error) {
	if len(header) == 0 {
		return nil
	}
	defer func() {
		if recover() != nil { // the FlatBuffers reader does not validate its input
			err = errHeader
		}
	}()
	message := flatbuffers.Table{Bytes: header, Pos: flatbuffers.GetUOffsetT(header)}
	kind, at := message.Offset(messageKind), message.Offset(messageHeader)
	if kind == 0 || at == 0 {
		return nil
	}
	c := headerCheck{fields: maxFields}
	c.list(&message, messageMetadata, 4)
	var content flatbuffers.Table
	message.Union(&content, flatbuffers.UOffsetT(at))
	switch message.GetByte(message.Pos + flatbuffers.UOffsetT(kind)) {
	case kindSchema:
		c.list(&content, schemaMetadata, 4)
		c.list(&content, schemaFeatures, 8)
		c.fieldsOf(&content, schemaFields, 0)
		return c.err
	case kindDictionary:
		data := content.Offset(dictionaryRecord)
		if data == 0 {
			return c.err
		}
		content.Pos = content.Indirect(content.Pos + flatbuffers.UOffsetT(data))
	case kindRecord:
	default:
		return c.err
	}
	c.list(&content, recordNodes, 16)
	c.list(&content, recordBuffers, 16)
	c.list(&content, recordVariadic, 8)
	if c.err == nil && content.Offset(recordCompressed) != 0 {
		return errCompressed
	}
	return c.err
}

// headerCheck keeps the first error.
type headerCheck struct {
	fields int // that may follow
	err    error
}

// list checks a list of elements of this many bytes, and returns its start and length.
func (c *headerCheck) list(t *flatbuffers.Table, field flatbuffers.VOffsetT, size int) (start flatbuffers.UOffsetT, n int) {
	at := t.Offset(field)
	if at == 0 {
		return 0, 0
	}
	n, start = t.VectorLen(flatbuffers.UOffsetT(at)), t.Vector(flatbuffers.UOffsetT(at))
	if n < 0 || int64(start)+int64(n)*int64(size) > int64(len(t.Bytes)) {
		c.err = errHeader
		return 0, 0
	}
	return start, n
}

// fieldsOf checks a list of fields, and those within them.
func (c *headerCheck) fieldsOf(t *flatbuffers.Table, list flatbuffers.VOffsetT, depth int) {
	start, n := c.list(t, list, 4)
	if c.fields -= n; c.fields < 0 || depth > maxDepth {
		c.err = errHeader
		return
	}
	for i := 0; i < n && c.err == nil; i++ {
		f := flatbuffers.Table{Bytes: t.Bytes, Pos: t.Indirect(start + flatbuffers.UOffsetT(4*i))}
		c.list(&f, fieldMetadata, 4)
		if kind, at := f.Offset(fieldTypeKind), f.Offset(fieldType); kind != 0 && at != 0 && f.GetByte(f.Pos+flatbuffers.UOffsetT(kind)) == typeUnion {
			var union flatbuffers.Table
			f.Union(&union, flatbuffers.UOffsetT(at))
			c.list(&union, unionTypeIDs, 4)
		}
		c.fieldsOf(&f, fieldChildren, depth+1)
	}
}
