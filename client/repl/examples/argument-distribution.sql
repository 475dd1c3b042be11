-- How are an argument and a return value distributed? (Sizes of entries; which lookups succeeded.)
SELECT HISTOGRAM(arg1), COUNT(*) FILTER (WHERE retval >= 0) AS succeeded FROM function_duration WHERE function_name = 'cache_put' FOR 5s;
