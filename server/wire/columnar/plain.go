package columnar

import flatbuffers "github.com/google/flatbuffers/go"

// Fields of Arrow's messages, as offsets in their vtables (format/Message.fbs,
// format/Schema.fbs), and kinds of messages.
const (
	messageKind      = 6  // Message.header_type
	messageHeader    = 8  // Message.header
	dictionaryRecord = 6  // DictionaryBatch.data
	recordCompressed = 10 // RecordBatch.compression

	kindDictionary = 2
	kindRecord     = 3
)

// IsPlain reports whether the header of a message is not that of a compressed
// record, which states itself how much memory it needs, whatever its size. It is
// false for one that cannot be parsed.
func IsPlain(header []byte) (plain bool) {
	if len(header) == 0 {
		return true
	}
	defer func() {
		if recover() != nil { // the FlatBuffers reader does not validate its input
			plain = false
		}
	}()
	message := flatbuffers.Table{Bytes: header, Pos: flatbuffers.GetUOffsetT(header)}
	kind, at := message.Offset(messageKind), message.Offset(messageHeader)
	if kind == 0 || at == 0 {
		return true
	}
	var record flatbuffers.Table
	message.Union(&record, flatbuffers.UOffsetT(at))
	switch message.GetByte(message.Pos + flatbuffers.UOffsetT(kind)) {
	case kindDictionary:
		data := record.Offset(dictionaryRecord)
		if data == 0 {
			return true
		}
		record.Pos = record.Indirect(record.Pos + flatbuffers.UOffsetT(data))
	case kindRecord:
	default:
		return true
	}
	return record.Offset(recordCompressed) == 0
}
