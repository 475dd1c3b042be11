-- How are an argument and what is returned distributed?
SELECT HISTOGRAM(arg0), HISTOGRAM(retval) FROM function_duration WHERE function_name = 'do_work' FOR 10s;
