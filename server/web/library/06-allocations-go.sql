-- What allocates, by stack?
-- go
SELECT SUM(size) AS bytes, COUNT(*), folded_stack(stack) AS path
FROM allocation GROUP BY path ORDER BY bytes DESC FOR 10s
