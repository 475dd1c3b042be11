// Package columnar gives batches the form in which they travel, Arrow records,
// and back.
//
//	BIGINT     int64                 TIMESTAMP  timestamp[ns, UTC]
//	DOUBLE     float64               DURATION   duration[ns]
//	BOOLEAN    bool                  LIST       see [Form]
//	VARCHAR    utf8, or its codes    ENCODING   see [Form]
//	BYTES      binary, or its codes
//
// Numbers are not copied where a record is one batch without a selection: the
// record's buffers are the batch's slices, and what is read of a record is the
// batch's.
//
// It must not know how records are sent, nor where batches come from.
package columnar
