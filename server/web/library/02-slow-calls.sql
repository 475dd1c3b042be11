-- Which calls are slower than 5 ms, with their arguments and stack?
-- c
SELECT timestamp, thread_name, function_name, duration, arg0, arg1, stack
FROM function_duration
WHERE function_name LIKE '%request%' AND duration > 5ms FOR 1min
