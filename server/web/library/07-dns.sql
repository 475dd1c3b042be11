-- Which hosts are looked up, how often and how long? (The resolver of the C library)
-- c java python
SELECT str(arg0) AS host, COUNT(*), AVG(duration), MAX(duration)
FROM function_duration
WHERE module = 'libc.so.6' AND function_name = 'getaddrinfo'
GROUP BY host FOR 30s
