// Package columnar converts between batches and Arrow records, their form on the
// network.
//
//	BIGINT     int64                 TIMESTAMP  timestamp[ns, UTC]
//	UBIGINT    uint64
//	DOUBLE     float64               DURATION   duration[ns]
//	BOOLEAN    bool                  LIST       see [Form]
//	VARCHAR    utf8, or its codes    ENCODING   see [Form]
//	BYTES      binary, or its codes
//
// Bytes of text that are not UTF-8 become U+FFFD, except in the form Exact.
//
// Numbers are not copied if a record is one batch without a selection: the record's
// buffers are the batch's slices. A decoded batch uses the record's buffers.
//
// It must not know how records are sent, nor where batches come from.
package columnar
