// Package standing says what a query must be to stand: to run until it is dropped, as
// CREATE QUERY has it.
//
// Its results are windows, each of which is final some time after its end. EMIT EVERY of an
// aggregate is a window of that length: a total since the beginning would begin again
// whenever a host is restarted.
//
// It must not know columns or types, nor how anything is planned.
package standing
