-- Tell me when a call is slow.
-- c go java
CREATE OR REPLACE TRIGGER slow ON function_duration
WHEN function_name LIKE '%request%' AND duration > 5ms
BEGIN NOTIFY 'a slow call' END
