-- How long do TLS reads and writes take, and how many bytes do they transfer? (OpenSSL, also if it is loaded later.)
SELECT function_name, COUNT(*), AVG(duration), QUANTILE(duration, 0.99) AS p99, SUM(retval) FILTER (WHERE retval BETWEEN 1 AND 2147483647) AS bytes FROM function_duration WHERE module = 'libssl.so.3' AND function_name IN (SSL_read, SSL_write) GROUP BY function_name FOR 5s;
