-- How often is each method called, in each second?
-- java
SELECT window_start, function_name, COUNT(*)
FROM TUMBLE(function_start, 1s)
WHERE class LIKE 'com.example.%'
GROUP BY function_name FOR 1min
