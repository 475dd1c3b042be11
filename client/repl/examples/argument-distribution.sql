-- How are an argument and what is returned distributed? (Sizes of entries; which calls found one.)
SELECT HISTOGRAM(arg1), COUNT(*) FILTER (WHERE retval >= 0) AS succeeded FROM function_duration WHERE function_name = 'cache_put' FOR 5s;
