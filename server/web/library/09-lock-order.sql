-- Which threads take two locks in opposite orders?
-- c
CREATE OR REPLACE STREAM nested AS (
  SELECT a.timestamp AS timestamp, b.tid AS tid, a.arg0 AS first, b.arg0 AS second
  FROM function_start a WINDOW JOIN function_start b WINDOW 1s a FOLLOWED BY b
  LEFT WINDOW JOIN function_start u WINDOW 1s
    ON a.tid = u.tid AND a.arg0 = u.arg0 AND u.function_name = 'pthread_mutex_unlock'
   AND u.module = 'libc.so.6' AND u.timestamp > a.timestamp AND u.timestamp < b.timestamp
  WHERE a.tid = b.tid AND a.arg0 <> b.arg0
    AND a.function_name = 'pthread_mutex_lock' AND b.function_name = 'pthread_mutex_lock'
    AND a.module = 'libc.so.6' AND b.module = 'libc.so.6' AND u.tid IS NULL);
SELECT x.tid AS thread, y.tid AS other_thread, x.first, x.second, COUNT(*)
FROM nested x WINDOW JOIN nested y WINDOW 5s
WHERE x.first = y.second AND x.second = y.first AND x.tid < y.tid
GROUP BY x.tid, y.tid, x.first, x.second FOR 10s
