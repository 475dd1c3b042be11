// Package window puts rows into windows (TUMBLE, HOP, SESSION): it adds the columns
// window_start and window_end, and says by watermarks when a window is complete.
//
// It must not know what is computed over a window.
package window
