// Package window assigns rows to windows (TUMBLE, HOP, SESSION): it adds the columns
// window_start and window_end, and marks complete windows by watermarks.
//
// It must not know what is computed over a window.
package window
