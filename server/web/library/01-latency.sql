-- How long do functions take? A histogram for each function of a pattern, over time.
-- c go java
SELECT window_start, function_name, HISTOGRAM(duration)
FROM TUMBLE(function_duration, 1s)
WHERE function_name LIKE '%request%'
GROUP BY function_name FOR 1min
