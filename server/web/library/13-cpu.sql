-- How busy is the machine, and the process?
-- any
SELECT timestamp, percent_cpu, rss, threads
FROM SAMPLE(process_usage, 200ms) FOR 1min
