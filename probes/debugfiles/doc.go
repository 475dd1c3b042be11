// Package debugfiles finds where debug files come from: the directories and servers
// (debuginfod) that a query's settings name ([Search]), and the package of the distribution
// that has those of a program ([Package]). It must not know what is in the files: package elf
// reads them.
package debugfiles
