-- Which calls are slower than 5 ms, in which goroutine and on which stack?
-- go
SELECT timestamp, goroutine, function_name, duration, stack
FROM function_duration
WHERE function_name LIKE 'main.%' AND duration > 5ms FOR 1min
