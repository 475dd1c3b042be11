-- How often is each function called, second by second?
SELECT window_start, function_name, COUNT(*) FROM TUMBLE(function_start, 1s) WHERE function_name LIKE 'do\_%' GROUP BY function_name FOR 10s;
