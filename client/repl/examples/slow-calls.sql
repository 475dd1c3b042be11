-- Which calls took longer than 5 ms, with which arguments, and on which stack?
SELECT timestamp, thread_name, function_name, duration, arg0, arg1, format_stack(stack, 5) AS stack FROM function_duration WHERE function_name IN (process_job, handle_request) AND duration > 5ms FOR 5s;
