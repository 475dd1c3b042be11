-- How long do TLS reads and writes take? (OpenSSL)
-- c python
SELECT function_name, COUNT(*), AVG(duration), QUANTILE(duration, 0.99) AS p99
FROM function_duration
WHERE module = 'libssl.so.3' AND function_name IN (SSL_read, SSL_write)
GROUP BY function_name EMIT EVERY 1s FOR 1min
