-- Which calls took longer than 5 ms, and with which arguments?
SELECT timestamp, thread_name, function_name, duration, arg0, arg1 FROM function_duration WHERE function_name IN (process_job, handle_request) AND duration > 5ms FOR 5s;
