-- How long do TLS reads and writes take, and of how many bytes are they? (OpenSSL, also when it is loaded later)
SELECT function_name, COUNT(*), AVG(duration), QUANTILE(duration, 0.99) AS p99, SUM(retval) FILTER (WHERE retval > 0) AS bytes FROM function_duration WHERE module LIKE 'libssl.so%' AND function_name IN (SSL_read, SSL_write) GROUP BY function_name FOR 10s;
