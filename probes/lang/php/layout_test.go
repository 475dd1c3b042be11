package php

import (
	"bufio"
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"endoscope/probes/lang/interpreter"
	"endoscope/probes/lang/interpreter/interpretertest"
	"endoscope/probes/testenv"
)

// calls is a program that waits deep in functions of all kinds. It prints the backtrace that PHP
// itself gives, and then reads. A frame is printed with the line at which it is.
const calls = `<?php
namespace Shop;
class Cart {
    public function each(array $a) { return array_map(function ($x) { return self::größe($x); }, $a); }
    public static function größe($x) {
        $o = new class { function __call($name, $args) { return \Shop\include_it($args[0]); } };
        return $o->magic($x);
    }
}
function include_it($x) {
    return include __DIR__ . '/included.php';
}
function numbers() {
    $cart = new Cart;
    yield $cart->each([1]);
}
function last() {
    foreach (debug_backtrace(DEBUG_BACKTRACE_IGNORE_ARGS) as $f) {
        $f['function'] = ['include' => '{main}', 'eval' => '{eval}'][$f['function']] ?? $f['function'];
        $class = isset($f['class']) ? strstr($f['class'] . "\0", "\0", true) . '::' : '';
        echo $class . $f['function'], "\n", $f['file'] ?? '', ':', $f['line'] ?? '', "\n";
    }
    echo "\n";
    fgets(STDIN);
}
foreach (numbers() as $n) { print_r($n); }
`

// included is a file that calls the last function in text that is evaluated.
const included = `<?php

return eval("\n\nreturn Shop\\last();");
`

// interpreters returns the installed ones.
func interpreters(t *testing.T) []string {
	first, err := filepath.EvalSymlinks(testenv.NeedProgram(t, "php"))
	if err != nil {
		t.Fatal(err)
	}
	found := []string{first}
	more, _ := filepath.Glob("/usr/bin/php[0-9]*")
	for _, php := range more {
		if php != first {
			found = append(found, php)
		}
	}
	return found
}

// The functions, files and lines are those that PHP itself reports.
func TestStacks(t *testing.T) {
	testenv.NeedRoot(t)
	for _, php := range interpreters(t) {
		t.Run(php, func(t *testing.T) {
			folder := t.TempDir()
			script := filepath.Join(folder, "calls.php")
			for path, text := range map[string]string{script: calls, filepath.Join(folder, "included.php"): included} {
				if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			compare(t, exec.Command(php, "-n", script), script)
		})
	}
}

// compare compares the stack of a program with the one that it prints.
func compare(t *testing.T, cmd *exec.Cmd, script string) {
	last := strings.Count(calls[:strings.Index(calls, "fgets")], "\n") + 1 // the line at which it reads
	in, _ := cmd.StdinPipe()
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	cmd.Stderr = os.Stderr
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() { in.Close(); cmd.Process.Kill(); cmd.Wait() }()
	var said []string
	for lines := bufio.NewScanner(out); lines.Scan() && lines.Text() != ""; {
		said = append(said, lines.Text())
	}
	p, err := interpretertest.Open(cmd.Process.Pid, &Language)
	if err != nil {
		t.Fatal(err)
	}
	thread, ok := p.Thread(cmd.Process.Pid)
	if !ok {
		t.Fatal("the thread is not found")
	}
	testenv.Until(t, "it reads", func() bool {
		calls, ok := p.Calls(thread, nil)
		if !ok { // it runs
			return false
		}
		frames, ok := p.Functions(calls, nil)
		if !ok || len(frames) == 0 || frames[0].Function != "fgets" {
			return false
		}
		var got []string
		for _, f := range frames[1:] {
			place := ":"
			if f.File != "" {
				place = f.File + ":" + strconv.Itoa(f.Line)
			}
			got = append(got, place, f.Function)
		}
		want := append([]string{script + ":" + strconv.Itoa(last)}, said...)
		if want = append(want, "{main}"); !slices.Equal(got, want) {
			t.Errorf("it is in\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
		}
		return true
	})
	if _, ok := p.Thread(1); ok {
		t.Error("a thread of another program is found")
	}
	thread.ID++
	if _, ok := p.Calls(thread, nil); ok {
		t.Error("the state of another thread is read")
	}
	if _, ok := p.Functions([]interpreter.Call{{Code: thread.State}}, nil); ok {
		t.Error("the globals are taken for a function")
	}
}

// The offsets of the installed version are those that the compiler gives for its headers.
func TestOffsetsAreThoseOfTheHeaders(t *testing.T) {
	includes := strings.Fields(testenv.Output(t, testenv.NeedProgram(t, "php-config"), "--includes"))
	version := versionNumber.FindString(testenv.Output(t, "php-config", "--version"))
	program := testenv.CompileCText(t, headers, append(includes, "-w")...)
	o, ok := layouts[version]
	if !ok {
		t.Fatal("the version is not known")
	}
	got := strings.Fields(testenv.Output(t, program))
	var want []string
	for _, n := range []uint64{currentCall, functionTable, callPlace, callFunction, callPrevious, functionFlags, functionName, functionScope, className,
		stringLength, stringText, typeAt, instructionSize, instructionLine, o.opcodes, o.last, o.filename,
		flagTrampoline, flagClosure, kindInternal, kindUser, kindEval, isString, isArray} {
		want = append(want, strconv.FormatUint(n, 10))
	}
	if !slices.Equal(got, want) {
		t.Errorf("the compiler says\n%v, the table\n%v", got, want)
	}
}

// headers prints the offsets of the table, and the numbers that it knows.
const headers = `
#include <stddef.h>
#include <stdio.h>
#include "php.h"
#include "zend_globals.h"
#include "zend_compile.h"
int main(void) {
	size_t all[] = {
		offsetof(zend_executor_globals, current_execute_data), offsetof(zend_executor_globals, function_table),
		offsetof(zend_execute_data, opline), offsetof(zend_execute_data, func), offsetof(zend_execute_data, prev_execute_data),
		offsetof(zend_function, common.fn_flags), offsetof(zend_function, common.function_name), offsetof(zend_function, common.scope), offsetof(zend_class_entry, name),
		offsetof(zend_string, len), offsetof(zend_string, val), offsetof(zend_refcounted_h, u), sizeof(zend_op), offsetof(zend_op, lineno),
		offsetof(zend_op_array, opcodes), offsetof(zend_op_array, last), offsetof(zend_op_array, filename),
		ZEND_ACC_CALL_VIA_TRAMPOLINE, ZEND_ACC_CLOSURE, ZEND_INTERNAL_FUNCTION, ZEND_USER_FUNCTION, ZEND_EVAL_CODE, IS_STRING, IS_ARRAY};
	for (int i = 0; i < sizeof(all) / sizeof(*all); i++)
		printf("%zu\n", all[i]);
}`

// Damaged files yield errors and no panics.
func TestDamagedFilesAreErrors(t *testing.T) {
	interpretertest.ReadDamaged(t, &Language, testenv.NeedProgram(t, "php"), "php")
}

// Unknown versions, builds with threads and builds that export no globals are refused, by name.
func TestUnknownBuildsAreRefused(t *testing.T) {
	b, err := os.ReadFile(testenv.NeedProgram(t, "php"))
	if err != nil {
		t.Fatal(err)
	}
	version := versionNumber.FindString(testenv.Output(t, "php", "-r", "echo PHP_VERSION;"))
	for want, change := range map[string][2]string{
		"PHP 9." + version[2:] + " is not known": {header + version[:1], header + "9"},
		"PHP " + version + " without symbols":    {"\x00executor_globals\x00", "\x00executor_glories\x00"},
		"PHP of an unknown version":              {header, "X-Powered-By: php/"},
	} {
		changed := bytes.ReplaceAll(b, []byte(change[0]), []byte(change[1]))
		if _, err := ReadLayout(bytes.NewReader(changed), "php"); err == nil || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("error %v, want %q", err, want)
		}
	}
}
