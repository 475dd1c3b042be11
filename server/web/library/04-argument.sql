-- How is an argument distributed, and how often does the call succeed?
-- c
SELECT function_name, HISTOGRAM(arg1), COUNT(*), COUNT(*) FILTER (WHERE retval >= 0) AS succeeded
FROM function_duration
WHERE function_name LIKE '%put%'
GROUP BY function_name FOR 10s
