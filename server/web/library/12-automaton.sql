-- In which order are functions called? An automaton.
-- c go
SELECT AUTOMATON(function_name), COUNT(*)
FROM function_start
WHERE function_name ~ '(request|cache)' GROUP BY tid FOR 5s
