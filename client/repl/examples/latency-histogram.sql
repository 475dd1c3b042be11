-- How long do functions take? A histogram for each function that matches a pattern.
SELECT function_name, HISTOGRAM(duration) FROM function_duration WHERE function_name LIKE 'cache\_%' GROUP BY function_name FOR 5s;
