package client

const usage = `usage: endoscope [flags]
       endoscope [flags] -- CMD ARGS...
       endoscope demo [flags]
       endoscope web [demo | -p PID ...]
       endoscope help [TOPIC]

SQL over running programs. Without -c or -f, statements are read from a prompt,
or from standard input if that is not a terminal.

Target (one of these; a query can also have WHERE pid = ...):
  -p, --pid PID        this process
      --process NAME   every process of this name, including those that start later
      --exe PATH       every process of this executable
  -- CMD ARGS...       start this program, stopped until the first query is armed,
                       and observe it and the processes that it starts;
                       it shares this terminal's input and output
  demo                 a small program that is part of endoscope

Statements (run in the order given, up to the first that fails):
  -c, --command SQL    statements, separated by semicolons; without any, nothing
                       is done, as in psql: exit code 0
  -f, --file FILE      statements of a file; - is standard input

Output and connection:
      --format FORMAT  table, csv, json, jsonl, markdown or raw; a table on a
                       terminal, else csv. Machine formats are exact:
                       durations in ns, timestamps RFC 3339 in ns, NULL empty.
                       raw writes values as they are, without header and quotes
  -o, --output FILE    write rows to FILE, in the format of its ending: .csv,
                       .json, .jsonl, .md; .svg, .dot and others hold raw values

      --connect ADDR   use the engine at ADDR (host:port, or the path of a socket)
                       instead of one in this process; several are queried as one.
                       For another machine, or if the engine has certificates:
      --ca FILE        the certificate of its CA (created by endoscoped init),
      --cert FILE      and your certificate, with its key in FILE.key or --key FILE,
      --token-file FILE  or your token, which may also be in $ENDOSCOPE_TOKEN.
                       Without them: ca.pem, client.pem, client.key and token in
                       ~/.config/endoscope
      --reconnect      when the connection is lost, connect again and continue;
                       gaps are reported
      --insecure       do not encrypt: others can read and change the traffic
      --version, --help

endoscope help lists the topics of the manual: queries, streams,
settings, functions. endoscope help TOPIC shows one. endoscope web serves a
page for a browser (endoscope help web).

Rows go to standard output; notices, errors and the last line of a result
(rows, time, and whether anything was lost) to standard error. Ctrl-C ends a
query and shows what it has; twice abandons it.

Exit code: 0 success, 1 a statement failed, 2 mistake in the command line.

Examples:
  endoscope demo
  endoscope -p 4711 -c "SELECT function_name, COUNT(*), AVG(duration)
      FROM function_duration WHERE function_name LIKE 'handle_%'
      GROUP BY function_name FOR 10s"
  endoscope --exe /usr/sbin/nginx --format jsonl -f watch.sql | jq .duration
  endoscope -c "SELECT HISTOGRAM(duration) FROM function_duration
      WHERE function_name = 'main_loop' EMIT EVERY 1s" -- ./server --port 8080
`

// banner is printed before the first prompt.
const banner = `endoscope %s: statements end with a semicolon.
\? lists commands, \help shows the manual, Ctrl-D exits.
`

// demoBanner follows banner in the demo.
const demoBanner = `A demo program is running (pid %d): a job queue with two workers, a timer,
a client and a reader of its requests, a cache, and a lock that all of them use. Try:

  SELECT function_name, COUNT(*) AS calls, AVG(duration), MAX(duration)
    FROM function_duration WHERE function_name IN (process_job, handle_request, lock_stats)
    GROUP BY function_name FOR 5s;

  SELECT timestamp, thread_name, arg0 AS job, duration FROM function_duration
    WHERE function_name = 'process_job' AND duration > 20ms LIMIT 5;

  SELECT HISTOGRAM(duration) FROM function_duration
    WHERE function_name = 'process_job' FOR 5s;

`
