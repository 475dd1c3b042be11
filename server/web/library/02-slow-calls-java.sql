-- Which methods are slower than 5 ms? (Machines with -XX:+ExtendedDTraceProbes)
-- java
SELECT timestamp, thread_name, function_name, duration
FROM function_duration
WHERE class LIKE 'com.example.%' AND duration > 5ms FOR 1min
