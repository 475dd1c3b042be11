<?php
// Divides its time between heavy (6 parts), medium (3) and light (1), whose work is that of spin.
// It runs for some seconds after each line that it reads, and prints how many ns it was in each,
// by its own clock, and how often a signal found it in each, by its own backtrace.
class Work {
    public static function spin($n) {
        for ($x = 0; $x < $n;) {
            $x += 1;
        }
    }
}

function heavy($n) {
    Work::spin(6 * $n);
}

function medium($n) {
    Work::spin(3 * $n);
}

function light($n) {
    Work::spin($n);
}

const NAMES = ['heavy', 'medium', 'light'];
$time = $found = [];

function timed($name, $n) {
    $from = hrtime(true);
    $name($n);
    $GLOBALS['time'][$name] += hrtime(true) - $from;
}

function turns($seconds) {
    $to = hrtime(true) + $seconds * 1e9;
    while (hrtime(true) < $to) {
        array_map(function ($name) { timed($name, rand(2000, 18000)); }, NAMES);
    }
}

function found() {
    foreach (debug_backtrace(DEBUG_BACKTRACE_IGNORE_ARGS) as $call) {
        if (in_array($call['function'], NAMES)) {
            $GLOBALS['found'][$call['function']]++;
        }
    }
}

pcntl_async_signals(true);
pcntl_signal(SIGUSR1, 'found');
echo "1\n";
while (fgets(STDIN)) {
    $time = $found = array_fill_keys(NAMES, 0);
    turns(4);
    echo implode(' ', $time), "\n", implode(' ', $found), "\n";
}
