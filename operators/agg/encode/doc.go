// Package encode implements the aggregate functions whose result is an encoding or
// a graph: it passes the values of each sequence to an encoder (package encoders).
//
// It must not know how groups are found, nor how an encoder works.
package encode
