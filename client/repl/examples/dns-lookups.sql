-- Which hosts are looked up, how often, and how long does it take? (The C library's resolver.)
SELECT str(arg0) AS host, COUNT(*), AVG(duration), MAX(duration) FROM function_duration WHERE module = 'libc.so.6' AND function_name = 'getaddrinfo' GROUP BY host FOR 5s;
