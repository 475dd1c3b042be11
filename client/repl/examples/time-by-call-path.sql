-- Where does the time go, by call path? (Calls and time of each path of up to three functions.)
SELECT NLEVEL(3) FROM function_call WHERE function_name IN (process_job, handle_request, cache_put, cache_get, checksum, update_stats) FOR 5s;
