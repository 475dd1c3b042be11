-- Where do threads run and wait? A flame graph with its timeline.
-- c go java python node ruby php
SELECT timestamp, thread_name, state, stack
FROM SAMPLE(stack_sample, 20ms) FOR 1min
