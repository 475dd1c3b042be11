-- How often is each function called in each interval?
SELECT window_start, function_name, COUNT(*) FROM TUMBLE(function_start, 500ms) WHERE function_name ~ '_(job|request)$' GROUP BY function_name FOR 5s;
