-- What is allocated and not freed within two seconds, by caller?
-- c
SELECT a.caller, COUNT(*), SUM(a.size) AS bytes
FROM allocation a LEFT WINDOW JOIN deallocation d WINDOW 2s
  ON a.pid = d.pid AND a.address = d.address AND d.timestamp > a.timestamp
WHERE d.pid IS NULL GROUP BY a.caller ORDER BY bytes DESC FOR 10s
