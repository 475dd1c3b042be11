-- Where does the time go: in functions with and without their callees among these functions?
SELECT function_name, COUNT(*), SUM(duration) AS inclusive, SUM(self_time) AS exclusive FROM function_duration WHERE function_name IN (process_job, handle_request, cache_put, cache_get, checksum, update_stats) GROUP BY function_name ORDER BY inclusive DESC FOR 5s;
