package client

const usage = `usage: endoscope [flags]
       endoscope [flags] -- CMD ARGS...
       endoscope demo [flags]
       endoscope help [TOPIC]

SQL over running programs. Without -c or -f, statements are read from a prompt,
or from standard input where that is no terminal.

What to look at (one of them; a query can also say WHERE pid = ...):
  -p, --pid PID        this process
      --process NAME   every process of this name, also those that start later
      --exe PATH       every process of this executable
  -- CMD ARGS...       a program started for this, held until the first query
                       is armed; it shares this terminal's input and output
  demo                 a small program that comes with endoscope

What to run (in the order given, up to the first that fails):
  -c, --command SQL    statements, separated by semicolons; of none, nothing is done,
                       as in psql: exit code 0
  -f, --file FILE      statements of a file; - is standard input

How to show it:
      --format FORMAT  table, csv, json, jsonl or markdown; a table on a
                       terminal, else csv. Machine formats are exact:
                       durations in ns, timestamps RFC 3339 in ns, NULL empty

      --connect ADDR   ask the engine at ADDR (host:port, or the path of a socket)
                       instead of one in this process; several of them are one.
                       Off this machine, or if the engine has certificates,
                       it takes
      --ca FILE        the certificate of its CA (endoscoped init makes one),
      --cert FILE      and your certificate, with its key in FILE.key or --key FILE,
      --token-file FILE  or your token, which may also be in $ENDOSCOPE_TOKEN.
                       Without them: ca.pem, client.pem, client.key and token in
                       ~/.config/endoscope
      --reconnect      when the connection is lost, connect again and go on; what is
                       missing is said
      --insecure       do not encrypt, so that others can read and change it
      --version, --help

endoscope help lists the topics of the manual: how to ask, what can be asked,
settings, functions. endoscope help TOPIC shows one.

Rows go to standard output; notices, errors and the last line of a result
(rows, time, and whether anything was lost) to standard error. Ctrl-C ends a
query and shows what it has; twice abandons it.

Exit code: 0 all done, 1 a statement failed, 2 the command line is wrong.

Examples:
  endoscope demo
  endoscope -p 4711 -c "SELECT function_name, COUNT(*), AVG(duration)
      FROM function_duration WHERE function_name LIKE 'handle_%'
      GROUP BY function_name FOR 10s"
  endoscope --exe /usr/sbin/nginx --format jsonl -f watch.sql | jq .duration
  endoscope -c "SELECT HISTOGRAM(duration) FROM function_duration
      WHERE function_name = 'main_loop' EMIT EVERY 1s" -- ./server --port 8080
`

// banner greets at the prompt.
const banner = `endoscope %s: statements end with a semicolon.
\? lists commands, \help shows the manual, Ctrl-D leaves.
`

// demoBanner goes on at the demo's prompt.
const demoBanner = `A demo program is running (pid %d): a job queue with two workers, a timer,
a client and a reader of its requests, a cache, and a lock they all want. Try:

  SELECT function_name, COUNT(*) AS calls, AVG(duration), MAX(duration)
    FROM function_duration WHERE function_name IN (process_job, handle_request, lock_stats)
    GROUP BY function_name FOR 5s;

  SELECT timestamp, thread_name, arg0 AS job, duration FROM function_duration
    WHERE function_name = 'process_job' AND duration > 20ms LIMIT 5;

  SELECT HISTOGRAM(duration) FROM function_duration
    WHERE function_name = 'process_job' FOR 5s;

`
