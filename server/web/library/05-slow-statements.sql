-- Which statements of PostgreSQL take longer than 1 ms?
-- postgresql
SELECT d.timestamp, d.pid, d.timestamp - s.timestamp AS duration, s.statement
FROM function_start d
ASOF JOIN (SELECT timestamp, pid, str(arg0) AS statement FROM function_start
           WHERE function_name = 'usdt:postgresql:query__start') s ON s.pid = d.pid
WHERE d.function_name = 'usdt:postgresql:query__done' AND d.timestamp - s.timestamp > 1ms FOR 1min
