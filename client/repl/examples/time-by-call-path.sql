-- Where does the time go, by call path: with and without the callees among these functions?
SELECT COUNT(*), SUM(duration) AS inclusive, SUM(self_time) AS exclusive, folded_stack(stack) AS path FROM function_duration WHERE function_name IN (process_job, handle_request, cache_put, cache_get, checksum, update_stats) GROUP BY path ORDER BY inclusive DESC FOR 5s;
