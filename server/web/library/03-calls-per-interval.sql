-- How often is each function called, in each half second?
-- c go
SELECT window_start, function_name, COUNT(*)
FROM TUMBLE(function_start, 500ms)
WHERE function_name ~ '(job|request)'
GROUP BY function_name FOR 1min
