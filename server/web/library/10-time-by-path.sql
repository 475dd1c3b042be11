-- Where does the time go, by call path?
-- c go
SELECT COUNT(*), SUM(duration) AS inclusive, SUM(self_time) AS exclusive, folded_stack(stack) AS path
FROM function_duration
WHERE function_name ~ '(job|request|cache)'
GROUP BY path ORDER BY inclusive DESC FOR 10s
